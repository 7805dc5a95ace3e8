"""Figures as people read them: times in one unit a block, shares with their digits honest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A unit that a block of times is printed in."""

    name: str
    ns: int

    @classmethod
    def for_window(cls, window_ns: int) -> TimeUnit:
        """Give the unit in which times up to `window_ns` read well."""
        if window_ns < 10_000_000:
            return cls("µs", 1_000)
        if window_ns < 100_000_000_000:
            return cls("ms", 1_000_000)
        return cls("s", 1_000_000_000)

    def text(self, ns: int | None) -> str:
        """Give a time to three digits after the point, rounded half up in integers."""
        if ns is None:
            return "unknown"
        if 0 < ns < self.ns // 1000:
            return "<0.001"
        thousandths = (abs(ns) * 1000 + self.ns // 2) // self.ns
        sign = "-" if ns < 0 else ""
        return f"{sign}{thousandths // 1000:,}.{thousandths % 1000:03d}"


def duration(ns: int | None) -> str:
    """Give a single time with its unit."""
    if ns is None:
        return "unknown"
    unit = TimeUnit.for_window(abs(ns))
    return f"{unit.text(ns)} {unit.name}"


def share(part: int | None, whole: int | None) -> str:
    """Give a share in per cent; what is not all or nothing never reads as such."""
    if part is None or whole is None:
        return "unknown"
    if whole == 0:
        return "n/a"
    thousandths = (part * 2000 + whole) // (2 * whole)
    if part and thousandths == 0:
        return "<0.1 %"
    if part < whole and thousandths >= 1000:
        return ">99.9 %"
    return f"{thousandths // 10}.{thousandths % 10} %"


def count(number: int | None) -> str:
    """Give a count."""
    return "unknown" if number is None else f"{number:,}"
