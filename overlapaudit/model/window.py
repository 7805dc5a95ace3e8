"""Windows of time that a trace is looked at through."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from overlapaudit.model.errors import UsageError


class WindowKind(str, Enum):
    """How a window was chosen."""

    TRACE = "trace"
    ITERATION = "iteration"  # the whole trace, judged by its iterations alone
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
ITERATIONS = Window(WindowKind.ITERATION)


_UNITS_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_BOUND = re.compile(r"([+-]?\d{1,19}(?:\.\d{1,9})?)\s*([a-zµμ]{1,2})")


def parse_window(text: str) -> Window:
    """Read `trace`, `iteration`, or `A..B` with units (12ms..24.5ms) from the session start.

    Raises:
        UsageError: it is none of these, or holds no time.
    """
    if text == WindowKind.TRACE.value:
        return WHOLE_TRACE
    if text == WindowKind.ITERATION.value:
        return ITERATIONS
    if text == "request":
        raise UsageError(
            "--window request: this version does not judge requests yet; use trace, iteration "
            "or A..B"
        )
    first, dots, last = text.partition("..")
    if not dots:
        raise UsageError(
            f"--window {text}: expected trace, iteration, or A..B with units, as in 12ms..24ms"
        )
    start, end = _bound(first, text), _bound(last, text)
    if end <= start:
        raise UsageError(
            f"--window {text}: {'is empty' if end == start else 'ends before it begins'}"
        )
    return Window(WindowKind.SPAN, start, end)


def _bound(part: str, text: str) -> int:
    match = _BOUND.fullmatch(part.strip())
    if match is None or match[2] not in _UNITS_NS:
        raise UsageError(f"--window {text}: '{part}' is no time with a unit (ns, us, ms, s)")
    value = Decimal(match[1]) * _UNITS_NS[match[2]]
    if value != value.to_integral_value():
        raise UsageError(f"--window {text}: '{part}' is not a whole number of ns")
    if abs(value) >= 1 << 62:
        raise UsageError(f"--window {text}: '{part}' is beyond any session")
    return int(value)
