"""The API calls of each thread in the order of their start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from overlapaudit.model.trace import Trace

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ThreadCalls:
    """All API calls, and of each thread which are its own.

    Attributes:
        start_ns: int64 [calls], in the order of API_CALLS.
        end_ns: int64 [calls].
        rows: of each thread (globalTid) its rows of API_CALLS, by start.
    """

    start_ns: Numbers
    end_ns: Numbers
    rows: Mapping[int, Numbers]

    def __iter__(self) -> Iterator[tuple[int, Numbers]]:
        return iter(self.rows.items())


def process_of(thread: int) -> int:
    """Give the globalPid of a globalTid."""
    return thread - (thread & 0xFFFFFF)


def thread_calls(trace: Trace) -> ThreadCalls:
    """Order the calls of each thread; calls whose thread is not known are left out."""
    calls = trace.api_calls
    thread = calls["thread"].fill_null(-1).to_numpy()
    start = calls["start_ns"].fill_null(0).to_numpy()
    rows = {}
    for one in calls["thread"].unique().drop_nulls().sort():
        mine = np.flatnonzero(thread == one)
        if (start[mine][1:] < start[mine][:-1]).any():
            mine = mine[np.argsort(start[mine], kind="stable")]
        rows[int(one)] = mine
    return ThreadCalls(start, calls["end_ns"].fill_null(0).to_numpy(), rows)
