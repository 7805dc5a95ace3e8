"""The ranges that are open on each thread, in the order in which they were pushed.

NVTX pops what was pushed last, whoever pops. Engines close ranges in other orders: coroutines take
turns on a thread, generators move between threads. Here each range is closed by itself: what lies
above it is popped and pushed again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from overlapaudit_nvtx.tool import HERE, Tool


class Opened:
    """A range that was pushed."""

    __slots__ = ("closed", "event", "stack", "tool")

    def __init__(self, event: object, stack: list[Opened], tool: Tool) -> None:
        self.event = event
        self.stack = stack
        self.tool = tool
        self.closed = False


class _Threads(threading.local):
    def __init__(self) -> None:
        self.opened: list[Opened] = []


_THREADS = _Threads()


def push(event: object) -> Opened:
    """Open a range on this thread."""
    stack = _THREADS.opened
    opened = Opened(event, stack, HERE.tool)
    opened.tool.push(event)
    stack.append(opened)
    return opened


def close(opened: Opened) -> None:
    """Close a range, wherever it lies.

    On another thread than its own it can only be marked: its thread pops it as soon as it closes
    what lies above it.
    """
    opened.closed = True
    stack = _THREADS.opened
    if opened.stack is not stack:
        return
    if stack and stack[-1] is not opened and opened in stack:
        above = _pop_above(stack, stack.index(opened))
        _pop(stack)
        put_back(above)
    while stack and stack[-1].closed:
        _pop(stack)


def innermost(ranges: Sequence[object]) -> Opened | None:
    """Give the one of these that lies innermost on this thread, None if none does.

    What a suspended body has put aside does not lie there: it is still that body's to close.
    """
    for opened in reversed(_THREADS.opened):
        if opened in ranges:
            return opened
    return None


def park(own: Opened) -> list[Opened]:
    """Close a range of this thread, and pop for a while what lies above it; give that."""
    own.closed = True
    stack = _THREADS.opened
    if own.stack is not stack or own not in stack:
        return []
    above = _pop_above(stack, stack.index(own))
    while stack and stack[-1].closed:
        _pop(stack)
    return above


def put_back(parked: list[Opened]) -> None:
    """Push again on this thread what was parked, but for what was closed since."""
    stack = _THREADS.opened
    for opened in parked:
        if not opened.closed:
            opened.stack = stack
            opened.tool.push(opened.event)
            stack.append(opened)


def _pop_above(stack: list[Opened], place: int) -> list[Opened]:
    above = stack[place + 1 :]
    while len(stack) > place + 1:
        _pop(stack)
    return above


def _pop(stack: list[Opened]) -> None:
    stack.pop().tool.pop()
