"""How long work tells that it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# (what, done, of how much; 0 where the whole is not known)
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""
