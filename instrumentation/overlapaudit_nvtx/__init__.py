"""Markers for serving engines; so far the words they are made of (`overlapaudit_nvtx.vocabulary`)."""
