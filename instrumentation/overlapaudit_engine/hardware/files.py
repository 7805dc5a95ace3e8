"""Read the hardware that comes with the package."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from functools import cache
from importlib import resources
from typing import Any

from overlapaudit_engine.hardware.hardware import Hardware, Spread

_SPREADS = (
    "copy_base", "memset_base", "launch_latency", "copy_latency", "stream_gap", "event_gap",
    "graph_gap", "wake_up",
)  # fmt: skip
# What a machine of the same kind may have more or less of; counts and sizes are what they are.
_VARIES = (
    "hbm_rate", "flops", "pcie_h2d", "pcie_d2h", "pageable_rate", "d2d_rate", "link_rate",
    "nic_rate",
)  # fmt: skip


@cache
def names() -> tuple[str, ...]:
    """Give the names of the devices there are, sorted."""
    files = (resources.files("overlapaudit_engine.hardware") / "data").iterdir()
    return tuple(sorted(one.name[: -len(".json")] for one in files if one.name.endswith(".json")))


@cache
def load(name: str) -> Hardware:
    """Give a device by its name.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in names():
        raise ValueError(f"no hardware {name!r}: {', '.join(names())}")
    file = resources.files("overlapaudit_engine.hardware") / "data" / f"{name}.json"
    figures: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    wanted = {field.name for field in fields(Hardware)}
    if figures.keys() != wanted:
        raise ValueError(f"{name}: {sorted(figures.keys() ^ wanted)} are not as they should be")
    for one in _SPREADS:
        figures[one] = Spread(*figures[one])
    figures["calls"] = {call: Spread(*spread) for call, spread in figures["calls"].items()}
    figures["pcie_both"] = tuple(figures["pcie_both"])
    return Hardware(**figures)


def varied(hardware: Hardware, seed: int, share: float = 0.2) -> Hardware:
    """Give a device whose rates and delays are up to a share higher or lower, each by itself.

    Equal seeds give equal devices on every machine.
    """

    def times(name: str) -> float:
        digest = hashlib.blake2b(f"{seed}/{hardware.name}/{name}".encode(), digest_size=4).digest()
        part = int.from_bytes(digest, "big") / 0xFFFF_FFFF
        return 1 + share * (2 * part - 1)

    def spread(name: str, old: Spread) -> Spread:
        by = times(name)
        return Spread(*(int(figure * by) for figure in (old.p10, old.p50, old.p90, old.p99)))

    changed: dict[str, Any] = {name: getattr(hardware, name) * times(name) for name in _VARIES}
    changed |= {name: spread(name, getattr(hardware, name)) for name in _SPREADS}
    both = hardware.pcie_both
    changed["pcie_both"] = (both[0] * times("pcie_h2d"), both[1] * times("pcie_d2h"))
    host = times("calls")  # of one machine all calls are slow, or none
    changed["calls"] = {
        call: Spread(*(int(figure * host) for figure in (old.p10, old.p50, old.p90, old.p99)))
        for call, old in hardware.calls.items()
    }
    return replace(hardware, **changed)
