"""The catalogue of finding codes."""
