"""The programs in the guide to the markers, and what the complete one writes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

GUIDE = Path(__file__).parents[1] / "docs" / "markers.md"


class Written(NamedTuple):
    """One range or mark, as the analyser names it."""

    kind: str
    level: str
    phase: str
    key: int | None
    facts: str | None = None


def program(name: str) -> str:
    """Give the code block behind the comment of this name."""
    found = re.search(
        rf"^<!-- {re.escape(name)} -->\n```python\n(.*?)^```$",
        GUIDE.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert found is not None, name
    return found[1]


def everything() -> Counter[Written]:
    """Say what one run of the complete program writes, counted by hand."""
    written: Counter[Written] = Counter()
    for number in range(3):
        written[Written("push_pop", "iteration", "step", number, "tokens=512,requests=2")] += 1
        written[
            Written("push_pop", "iteration", "model", number, "consumes=ids,consumes=slots")
        ] += 1
        for phase in ("schedule", "metadata_h2d", "sample", "result_d2h", "process"):
            written[Written("push_pop", "iteration", phase, number)] += 1
        # hidden is the number at first; attention adds 1, experts double it and add what the gate
        # chose: 0 -> 1 -> 3 -> 4 -> 8; 1 -> 2 -> 4 -> 5 -> 11; 2 -> 3 -> 7 -> 8 -> 16.
        for index, chosen in enumerate([(1, 0), (0, 1), (1, 0)][number]):
            written[Written("push_pop", "layer", "attn", index, f"produces=kv:{index}")] += 1
            written[Written("push_pop", "layer", "dispatch", index, f"expert={chosen}")] += 1
            for phase in ("gate", "expert", "shared", "combine", "tp_comm"):
                written[Written("push_pop", "layer", phase, index)] += 1
            written[Written("push_pop", "mech", "tbo.a", None)] += 1
            written[Written("push_pop", "mech", "tbo.b", None)] += 1
    for number, identity in ((1, "cmpl-1"), (2, "cmpl-2")):
        for phase, times in (("frontend", 1), ("queue", 1), ("prefill", 2), ("decode", 1)):
            written[Written("start_end", "request", phase, number, f"id={identity}")] += times
    written[Written("start_end", "request", "xfer", 7)] += 1
    written[Written("start_end", "cache", "wait", 4)] += 1
    written[Written("start_end", "cache", "l3_l2", 4)] += 1
    written[Written("push_pop", "cache", "l2_l1", 2)] += 1
    written[Written("push_pop", "cache", "lookup", 4)] += 2
    written[Written("push_pop", "cache", "store", 2)] += 3
    written[Written("mark", "cache", "fallback", 4)] += 1
    return written
