"""Markers for serving engines, to be read by overlapaudit in traces of Nsight Systems.

    from overlapaudit_nvtx import iteration, layer, request

    @layer("attn", index=lambda self, *_: self.index, consumes="kv")
    def forward(self, hidden): ...

    with iteration("step", number, tokens=512, requests=8): ...

    request("cmpl-17").start("prefill")   # here
    request("cmpl-17").end()              # there, on another thread

Where nvtx is not installed or no profiler listens, they do nothing. Nothing that goes wrong in them
reaches the engine: it is logged once, under the name `overlapaudit_nvtx`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlapaudit_nvtx.levels import cache, iteration, layer, mark, mech
    from overlapaudit_nvtx.marker import Marker, Span
    from overlapaudit_nvtx.requests import Request, request
    from overlapaudit_nvtx.switches import capturing, disable, enable, enabled, listening

__all__ = [
    "Marker",
    "Request",
    "Span",
    "cache",
    "capturing",
    "disable",
    "enable",
    "enabled",
    "iteration",
    "layer",
    "listening",
    "mark",
    "mech",
    "request",
]

# Loaded when first used: whoever wants the words alone loads neither the markers nor nvtx.
_HOME_OF = {
    "Marker": "marker",
    "Span": "marker",
    "Request": "requests",
    "request": "requests",
    "cache": "levels",
    "iteration": "levels",
    "layer": "levels",
    "mark": "levels",
    "mech": "levels",
    "capturing": "switches",
    "disable": "switches",
    "enable": "switches",
    "enabled": "switches",
    "listening": "switches",
}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'overlapaudit_nvtx' has no attribute {name!r}")
    found = getattr(import_module(f"overlapaudit_nvtx.{home}"), name)
    globals()[name] = found
    return found
