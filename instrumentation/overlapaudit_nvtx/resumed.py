"""A coroutine or generator whose range is open only while its body runs.

On one thread suspended bodies take turns. A range that was pushed and not popped at a suspension
would take in whatever the others launch, and the next pop would close the wrong one. So the range
is popped at each suspension, with those that the body itself has open, and pushed again when the
body goes on, maybe on another thread.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from overlapaudit_nvtx import thread_stack
from overlapaudit_nvtx.complaints import quiet
from overlapaudit_nvtx.thread_stack import Opened


class Resumed(Generator[Any, Any, Any]):
    """Stands between a body and whoever drives it; for `await` and `yield from`."""

    __slots__ = ("_body", "_event", "_parked")

    def __init__(self, body: Any, event: object) -> None:
        self._body = body if hasattr(body, "send") else body.__await__()
        self._event = event
        self._parked: list[Opened] = []

    def __await__(self) -> Resumed:
        return self

    def send(self, value: Any) -> Any:
        """Let the body run to its next suspension."""
        own = self._resume()
        try:
            return self._body.send(value)
        finally:
            self._suspend(own)

    def throw(self, *error: Any) -> Any:
        """Let it run from an error on; the arguments are those that the driver gave."""
        own = self._resume()
        try:
            return self._body.throw(*error)
        finally:
            self._suspend(own)

    def close(self) -> None:
        """Let it run to its end, with GeneratorExit."""
        own = self._resume()
        try:
            self._body.close()
        finally:
            self._suspend(own)

    @quiet
    def _resume(self) -> Opened:
        own = thread_stack.push(self._event)
        thread_stack.put_back(self._parked)
        return own

    @quiet
    def _suspend(self, own: Opened | None) -> None:
        if own is not None:
            self._parked = thread_stack.park(own)
