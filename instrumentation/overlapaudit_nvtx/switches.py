"""Which levels are written: asked for by the environment or at run time, and a tool listens."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from overlapaudit_nvtx.complaints import quiet, say_once
from overlapaudit_nvtx.nvtx_tool import open_tool
from overlapaudit_nvtx.tool import HERE, Deaf, Tool
from overlapaudit_nvtx.vocabulary import LEVELS
from overlapaudit_nvtx.wording import exact

VARIABLE: Final = "OVERLAPAUDIT_NVTX"
_NONE = ("off", "none")
_CAPTURES = threading.Lock()


class Switch:
    """One level. `on` is all that a marker asks when it has nothing to do."""

    __slots__ = ("captures", "level", "on", "wanted")

    def __init__(self, level: str) -> None:
        self.level = level
        self.wanted = False
        self.captures = 0  # captures that are under way and want this level
        self.on = False

    def settle(self, *, listening: bool) -> None:
        """Work out `on`."""
        self.on = listening and (self.wanted or self.captures > 0)


SWITCHES: Final[Mapping[str, Switch]] = MappingProxyType({name: Switch(name) for name in LEVELS})


def enable(*levels: str) -> None:
    """Write these levels from now on, all if none is named. Words that are no level are ignored."""
    _want(levels, True)


def disable(*levels: str) -> None:
    """Stop writing these levels, all if none is named. Ranges that are open are still closed."""
    _want(levels, False)


def enabled() -> tuple[str, ...]:
    """Give the levels that are asked for, whether or not a tool listens."""
    return tuple(name for name, switch in SWITCHES.items() if switch.wanted)


def listening() -> bool:
    """Say whether a tool takes the markers of this process; without one they cost as if off.

    A tool is there from the start of a process or never.
    """
    return not HERE.deaf


@contextmanager
def capturing(*levels: str) -> Generator[None, None, None]:
    """Write these levels while this is open, `layer` and `mech` if none is named.

    For the capture of CUDA graphs: profilers know the nodes of a graph by the ranges that were
    open when they were captured, and a capture happens once, maybe while levels are off.
    """
    chosen = _switches(levels or ("layer", "mech")) or []
    _capture(chosen, 1)
    try:
        yield
    finally:
        _capture(chosen, -1)


def use_tool(tool: Tool | None) -> None:
    """Give the markers to this tool from now on, to nobody if None."""
    HERE.tool = Deaf() if tool is None else tool
    HERE.deaf = tool is None
    _settle()


def start() -> None:
    """Look for a tool, and switch on what the environment asks for (all if it says nothing)."""
    for switch in SWITCHES.values():
        switch.wanted = False
    for name in _asked(os.environ.get(VARIABLE)):
        SWITCHES[name].wanted = True
    use_tool(open_tool())


def _asked(text: str | None) -> tuple[str, ...]:
    words = [word for word in (text or "").replace(",", " ").lower().split() if word]
    if not words or "all" in words:
        return LEVELS
    unknown = [word for word in words if word not in (*LEVELS, *_NONE)]
    if unknown:
        say_once(
            VARIABLE, f"{VARIABLE}: not {unknown[0][:40]!a}, but all, off, {', '.join(LEVELS)}"
        )
    return tuple(word for word in LEVELS if word in words)


def _want(levels: Iterable[object], wanted: bool) -> None:
    for switch in _switches(levels) or ():
        switch.wanted = wanted
    _settle()


@quiet
def _switches(levels: Iterable[object]) -> list[Switch]:
    names = [exact(one) for one in levels]
    if not names or "all" in names:
        return list(SWITCHES.values())
    for name in names:
        if name not in SWITCHES:
            say_once(f"level {name[:40]}", f"no level {name[:40]!a}: {', '.join(LEVELS)}")
    return [SWITCHES[name] for name in names if name in SWITCHES]


def _capture(switches: Iterable[Switch], step: int) -> None:
    with _CAPTURES:
        for switch in switches:
            switch.captures += step
    _settle()


def _settle() -> None:
    for switch in SWITCHES.values():
        switch.settle(listening=listening())


start()
