"""Which correlation id each row gets, and which API calls are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.tracebuilder.calls import AUTO, NO_CORRELATION, Activity, ApiCall
from tests.tracebuilder.identity import DEFAULT_THREAD, main_thread, process_of


@dataclass(frozen=True, slots=True)
class Launched:
    """The correlation id of each activity, and the API calls in the order of their start."""

    correlations: tuple[int, ...]
    calls: tuple[ApiCall, ...]


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
    written = {_key(call) for call in api_calls if call.correlation is not None}
    asked = {(row.process, number) for row in activities if (number := _asked(row)) is not None}
    counters = _Counters(asked | written)
    correlations: list[int] = []
    calls: list[ApiCall] = []
    usual: dict[tuple[int, int], Activity] = {}
    for row in activities:
        number = _asked(row)
        correlation = counters.next(row.process) if number is None else number
        correlations.append(correlation)
        key = (row.process, correlation)
        if isinstance(row.launch, ApiCall):
            calls.append(_complete(row.launch, main_thread(row.process), correlation))
        elif row.launch is AUTO and correlation != NO_CORRELATION and key not in written:
            first = usual.get(key)
            usual[key] = row if first is None or row.start_ns < first.start_ns else first
    calls.extend(_usual_calls(usual))
    for call in api_calls:
        number = call.correlation
        process = process_of(DEFAULT_THREAD if call.thread is None else call.thread)
        correlation = counters.next(process) if number is None else number
        calls.append(_complete(call, DEFAULT_THREAD, correlation))
    calls.sort(key=lambda call: (call.start_ns, call.end_ns))
    return Launched(tuple(correlations), tuple(calls))


def _usual_calls(usual: dict[tuple[int, int], Activity]) -> Iterator[ApiCall]:
    for (process, correlation), row in usual.items():
        thread = main_thread(process) if row.thread is None else row.thread
        yield _complete(row.usual_call(), thread, correlation)


def _asked(row: Activity) -> int | None:
    own = row.launch.correlation if isinstance(row.launch, ApiCall) else None
    if own is not None and row.correlation is not None and own != row.correlation:
        raise ValueError(f"correlation {row.correlation}, but {own} in its own call")
    return own if row.correlation is None else row.correlation


def _key(call: ApiCall) -> tuple[int, int | None]:
    return process_of(DEFAULT_THREAD if call.thread is None else call.thread), call.correlation


def _complete(call: ApiCall, thread: int, correlation: int) -> ApiCall:
    return replace(
        call, thread=thread if call.thread is None else call.thread, correlation=correlation
    )
