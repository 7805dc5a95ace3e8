"""Exports as nsys would have written them, from what happened in a simulated run."""
