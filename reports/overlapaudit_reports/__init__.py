"""Audits as people and programs read them. Knows documents, never traces."""
