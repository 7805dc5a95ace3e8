"""Words and orders that every report shares."""

from __future__ import annotations

from collections.abc import Sequence

from overlapaudit.model.document import Ranks
from overlapaudit.model.findings import WindowRef
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


def windows(refs: Sequence[WindowRef], most: int = 3) -> str:
    """Name windows: "iterations 41, 42, 43 and 12 more"; nothing for none."""
    if not refs:
        return ""
    named = ", ".join(str(one.id) for one in refs[:most])
    more = f" and {count(len(refs) - most)} more" if len(refs) > most else ""
    return f"{refs[0].kind}{'s' if len(refs) > 1 else ''} {named}{more}"


def clocks(ranks: Ranks) -> str:
    """Say how the clocks of the ranks relate."""
    apart = (
        "nothing tells how far their ends are apart"
        if ranks.residual_ns is None
        else f"nine of ten collectives end within {duration(ranks.residual_ns)} on all ranks"
    )
    if ranks.clocks == "one_session":
        return f"All ranks were recorded in one session, by one clock; {apart}."
    if ranks.clocks == "aligned":
        return f"The clocks of the ranks' files were aligned on the ends of collectives; {apart}."
    return "The clocks of at least one rank cannot be compared with the others'."
