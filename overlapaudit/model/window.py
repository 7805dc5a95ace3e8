"""Windows of time that a trace is looked at through."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class WindowKind(str, Enum):
    """How a window was chosen."""

    TRACE = "trace"
    SPAN = "span"  # A..B

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Window:
    """The whole trace, or [start_ns, end_ns) of it."""

    kind: WindowKind
    start_ns: int | None = None
    end_ns: int | None = None

    def clip(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """Cut [start_ns, end_ns) to this window; what lies outside becomes [x, x)."""
        start = start_ns if self.start_ns is None else max(start_ns, self.start_ns)
        end = end_ns if self.end_ns is None else min(end_ns, self.end_ns)
        return start, max(start, end)


WHOLE_TRACE = Window(WindowKind.TRACE)
