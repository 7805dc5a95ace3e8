"""What a marker writes, and where the ranges are that it has open."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final

from overlapaudit_nvtx import request_ids, thread_stack, wording
from overlapaudit_nvtx.compiling import COMPILER
from overlapaudit_nvtx.complaints import failed, quiet, say_once
from overlapaudit_nvtx.marker import NO_SPAN, F, Marker, Span
from overlapaudit_nvtx.switches import Switch
from overlapaudit_nvtx.thread_stack import Opened
from overlapaudit_nvtx.tool import HERE, Tool
from overlapaudit_nvtx.vocabulary import Fact, Level
from overlapaudit_nvtx.wrapping import wrap

_wrap = quiet(wrap)
_NOTHING: Final[Mapping[str, Any]] = {}
# The ranges that `async with` has open in this task, the innermost first.
_OF_TASK: ContextVar[tuple[tuple[Marker, Span], ...]] = ContextVar("_OF_TASK", default=())


class LiveMarker(Marker):
    """A marker where a tool listens. Its level may be switched at any time."""

    __slots__ = ("_facts", "_fixed", "_key", "_opened", "_phase", "_uses", "switch", "whole")

    def __init__(
        self,
        switch: Switch,
        phase: object,
        key: object,
        uses: tuple[object, object] = ((), ()),
        facts: Mapping[str, object] = _NOTHING,
        whole: bool = False,
    ) -> None:
        self.switch = switch
        self.whole = whole
        self._phase = phase
        self._key = key
        self._uses = uses
        self._facts = facts
        self._fixed: tuple[Tool, object] | None = None
        self._opened: list[Opened | Span] = []

    def __call__(self, function: F) -> F:
        """Wrap the function according to its kind."""
        wrapped: F | None = _wrap(self, function)
        return function if wrapped is None else wrapped

    def __enter__(self) -> Marker:
        """Open a range, if its level is on."""
        if self.switch.on and not COMPILER.is_tracing():
            opened = self.open()
            if opened is not None:
                self._opened.append(opened)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it, if one was opened."""
        if self._opened:
            self._exit()

    async def __aenter__(self) -> Marker:
        """Open a start/end range: other tasks may run before it is closed."""
        span = self.start()
        if span is not NO_SPAN:
            _OF_TASK.set(((self, span), *_OF_TASK.get()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, if one was opened."""
        opened = _OF_TASK.get()
        for at, (marker, span) in enumerate(opened):
            if marker is self:
                _OF_TASK.set(opened[:at] + opened[at + 1 :])
                span.end()
                return

    def start(self) -> Span:
        """Start a range that whoever holds the span ends, on whatever thread."""
        return (self._start() or NO_SPAN) if self.switch.on else NO_SPAN

    def mark(self) -> None:
        """Write a moment."""
        if self.switch.on:
            self._mark()

    # These are what an enabled marker costs: `quiet` around each would double it.

    def open(self, args: tuple[Any, ...] = (), named: Mapping[str, Any] = _NOTHING) -> Any:
        """Open the range of one call and give what `close` takes, None if there is none."""
        try:
            event = self._event(args, named)
            if event is None:
                return None
            return Span(HERE.tool, event) if self.whole else thread_stack.push(event)
        except Exception as error:  # noqa: BLE001 - as in `quiet`
            return failed("open", error)

    def close(self, opened: Opened | Span | None) -> None:
        """Close what `open` gave."""
        try:
            if type(opened) is Opened:
                thread_stack.close(opened)
            elif type(opened) is Span:
                opened.end()
        except Exception as error:  # noqa: BLE001 - as in `quiet`
            failed("close", error)

    def _exit(self) -> None:
        try:
            # What is innermost on this thread; if nothing of ours is, what was opened last.
            opened = thread_stack.innermost(self._opened) or self._opened[-1]
            self._opened.remove(opened)
        except (IndexError, ValueError):
            return  # another thread was faster
        self.close(opened)

    @quiet
    def event(self, args: tuple[Any, ...] = (), named: Mapping[str, Any] = _NOTHING) -> object:
        """Give what to write in a call with these arguments, None if it says nothing valid."""
        return self._event(args, named)

    @quiet
    def _start(self) -> Span | None:
        event = self._event((), _NOTHING)
        return None if event is None else Span(HERE.tool, event)

    @quiet
    def _mark(self) -> None:
        event = self._event((), _NOTHING)
        if event is not None:
            HERE.tool.mark(event)

    def _event(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> object:
        tool, fixed = HERE.tool, self._fixed
        if fixed is not None and fixed[0] is tool:
            return fixed[1]
        level = self.switch.level
        given = [self._key, *self._uses, *self._facts.values()]
        varies = any(map(callable, given))
        if varies:
            given = [one(*args, **named) if callable(one) else one for one in given]
        head = wording.head(level, self._phase)
        event = None
        if head is not None:
            key, produces, consumes, *values = given
            facts = list(zip(self._facts, values, strict=True))
            payload = self._payload(key, facts)
            tail = wording.tail(wording.facts(facts, produces, consumes))
            event = tool.event(level, head, payload, tail)
        if not varies:
            self._fixed = tool, event
        return event

    def _payload(self, key: object, facts: list[tuple[str, object]]) -> int | None:
        """Give the number of the payload; the id of a request may become a fact."""
        level = self.switch.level
        if level == Level.REQUEST.value:
            identity = request_ids.key_of(key)
            if isinstance(identity, str):
                facts.insert(0, (Fact.ID.value, identity))
            return request_ids.number_of(identity)
        found = wording.number(key)
        if found is None and key is not None:
            say_once(f"key {level}", f"{level}: its number is an integer, not {type(key).__name__}")
        return found
