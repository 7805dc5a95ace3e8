"""Tests on real traces, and against a real nsys."""
