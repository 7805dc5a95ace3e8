"""What takes the markers: the `nvtx` package with a profiler behind it, or nothing."""

from __future__ import annotations

from typing import Protocol


class Tool(Protocol):
    """A profiler that listens. Events are never changed, so threads may share them."""

    def event(self, level: str, head: str, payload: int | None, tail: str) -> object:
        """Give the event of this text (`head` and, after a bar, `tail`) and payload."""
        ...

    def push(self, event: object) -> None:
        """Open a range on the calling thread."""
        ...

    def pop(self) -> None:
        """Close the range of the calling thread that was opened last."""
        ...

    def start(self, event: object) -> object:
        """Open a range that belongs to no thread, and give what ends it."""
        ...

    def end(self, started: object) -> None:
        """Close a range that `start` opened."""
        ...

    def mark(self, event: object) -> None:
        """Write a moment."""
        ...


class Deaf:
    """No tool: takes everything, does nothing."""

    def event(self, level: str, head: str, payload: int | None, tail: str) -> object:
        """Give nothing."""
        return None

    def push(self, event: object) -> None:
        """Do nothing."""

    def pop(self) -> None:
        """Do nothing."""

    def start(self, event: object) -> object:
        """Give nothing."""
        return None

    def end(self, started: object) -> None:
        """Do nothing."""

    def mark(self, event: object) -> None:
        """Do nothing."""


class Place:
    """Where the tool of this process stands; a class, so that those who read it see changes.

    `deaf`: there is none.
    """

    __slots__ = ("deaf", "tool")

    def __init__(self) -> None:
        self.tool: Tool = Deaf()
        self.deaf = True


HERE = Place()
