"""What a marker is to those who use it: a decorator, a `with`, a start and an end."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar

from overlapaudit_nvtx.complaints import quiet
from overlapaudit_nvtx.tool import Tool

F = TypeVar("F", bound=Callable[..., Any])


class Span:
    """A range that belongs to no thread. It may be ended anywhere, once; more does nothing."""

    __slots__ = ("_started", "_tool")

    def __init__(self, tool: Tool | None = None, event: object = None) -> None:
        self._tool = tool
        self._started = None if tool is None else tool.start(event)

    @quiet
    def end(self) -> None:
        """End the range."""
        tool, self._tool = self._tool, None
        if tool is not None:
            tool.end(self._started)


NO_SPAN: Final = Span()


class Marker:
    """What to write, again and again, from any thread. Made by `layer`, `iteration` and the like.

    A pushed range belongs to its thread: GPU work that is launched inside counts for it. With
    `whole` it is a start/end range instead, which may cross threads and suspensions.

    This class itself does nothing: it is what those functions give where no tool listens, which
    for a process stays so.
    """

    __slots__ = ()

    def __call__(self, function: F) -> F:
        """Mark each call of a function, coroutine function or (async) generator function.

        Of what suspends, each run from one suspension to the next is a range of its own, so that
        nothing which ran in between counts for it; with `whole`, all of it is one range.
        """
        return function

    def __enter__(self) -> Marker:
        """Open a range, if its level is on."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it, if one was opened."""

    async def __aenter__(self) -> Marker:
        """Open a start/end range: other tasks may run before it is closed."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, if one was opened."""

    def start(self) -> Span:
        """Start a range that whoever holds the span ends, on whatever thread."""
        return NO_SPAN

    def mark(self) -> None:
        """Write a moment."""
