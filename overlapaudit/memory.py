"""Freed memory, given back before the next large step needs its own."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Give memory that was freed back to the system, where the C library can (glibc)."""
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
