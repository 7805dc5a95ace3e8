"""Words and orders that every report shares."""

from __future__ import annotations

from overlapaudit_reports.figures import count, duration

LANES_IN_ORDER = ("compute", "comm", "copy", "memset", "graph")
DIRECTIONS_OF = {"comm": ("p2p",), "copy": ("h2d", "d2h", "d2d", "h2h")}


def process_id(process: int) -> int:
    """Give the operating system's id in a globalPid, for people: it is no key."""
    return process >> 24 & 0xFFFFFF


def evidence_name(key: str) -> str:
    """Say what a figure of the evidence is."""
    return key.removesuffix("_ns").replace("_", " ")


def evidence_value(key: str, value: object) -> str:
    """Give a single value of the evidence as text, not escaped."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return duration(value) if key.endswith("_ns") else count(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
