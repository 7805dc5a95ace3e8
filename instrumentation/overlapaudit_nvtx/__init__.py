"""Markers for serving engines: so far their words alone, in `overlapaudit_nvtx.vocabulary`."""
