"""Which correlation id each row gets, and which API calls are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.tracebuilder.calls import AUTO, NO_CORRELATION, Activity, ApiCall
from tests.tracebuilder.identity import DEFAULT_THREAD, main_thread, process_of


class WrittenCall(NamedTuple):
    """An API call, with the thread and the correlation id that it gets."""

    call: ApiCall
    thread: int
    correlation: int


@dataclass(frozen=True, slots=True)
class Launched:
    """The correlation id of each activity, and the API calls in the order of their start."""

    correlations: tuple[int, ...]
    calls: tuple[WrittenCall, ...]


class _Counters:
    """Gives each process its own running ids, leaving out those that were asked for."""

    def __init__(self, taken: set[tuple[int, int]]) -> None:
        self._taken = taken
        self._last: dict[int, int] = {}

    def next(self, process: int) -> int:
        number = self._last.get(process, 0) + 1
        while (process, number) in self._taken:
            number += 1
        self._last[process] = number
        return number


def launch(activities: Sequence[Activity], api_calls: Sequence[ApiCall]) -> Launched:
    """Give every activity its correlation id and its call.

    Raises:
        ValueError: an activity and its own call ask for different ids.
    """
    asked = [_asked(row) for row in activities]
    own = {
        (row.process, number)
        for row, number in zip(activities, asked, strict=True)
        if number is not None and isinstance(row.launch, ApiCall)
    }
    written = own | {
        (process_of(_thread(call)), call.correlation)
        for call in api_calls
        if call.correlation is not None
    }
    taken = {
        (row.process, number)
        for row, number in zip(activities, asked, strict=True)
        if number is not None
    }
    counters = _Counters(taken | written)
    correlations = [
        counters.next(row.process) if number is None else number
        for row, number in zip(activities, asked, strict=True)
    ]
    calls = [
        *_own_calls(activities, correlations),
        *_usual_calls(activities, correlations, written),
        *_plain_calls(api_calls, counters),
    ]
    calls.sort(key=lambda each: (each.call.start_ns, each.call.end_ns))
    return Launched(tuple(correlations), tuple(calls))


def _own_calls(
    activities: Sequence[Activity], correlations: Sequence[int]
) -> Iterator[WrittenCall]:
    for row, correlation in zip(activities, correlations, strict=True):
        call = row.launch
        if isinstance(call, ApiCall):
            thread = main_thread(row.process) if call.thread is None else call.thread
            yield WrittenCall(call, thread, correlation)


def _usual_calls(
    activities: Sequence[Activity], correlations: Sequence[int], written: set[tuple[int, int]]
) -> Iterator[WrittenCall]:
    """Give one call for the rows that share an id, by the earliest of them."""
    first: dict[tuple[int, int], Activity] = {}
    for row, correlation in zip(activities, correlations, strict=True):
        key = (row.process, correlation)
        if row.launch is AUTO and correlation != NO_CORRELATION and key not in written:
            known = first.get(key)
            if known is None or row.start_ns < known.start_ns:
                first[key] = row
    for (process, correlation), row in first.items():
        thread = main_thread(process) if row.thread is None else row.thread
        yield WrittenCall(row.usual_call(), thread, correlation)


def _plain_calls(api_calls: Sequence[ApiCall], counters: _Counters) -> Iterator[WrittenCall]:
    for call in api_calls:
        thread = _thread(call)
        number = call.correlation
        correlation = counters.next(process_of(thread)) if number is None else number
        yield WrittenCall(call, thread, correlation)


def _asked(row: Activity) -> int | None:
    own = row.launch.correlation if isinstance(row.launch, ApiCall) else None
    if own is not None and row.correlation is not None and own != row.correlation:
        raise ValueError(f"correlation {row.correlation}, but {own} in its own call")
    return own if row.correlation is None else row.correlation


def _thread(call: ApiCall) -> int:
    return DEFAULT_THREAD if call.thread is None else call.thread
