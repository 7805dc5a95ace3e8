"""Threads that ask again and again whether work has ended, instead of waiting for it (OA509)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from overlapaudit.analysis.blocked import BLOCKED, conformed, on_each_device
from overlapaudit.analysis.idle_time import OfDevice, first_work
from overlapaudit.analysis.thread_calls import Numbers, ThreadCalls, process_of
from overlapaudit.model.kinds import ApiKind
from overlapaudit.model.trace import Trace

# So many queries without any other call between them are a loop.
_FEWEST_QUERIES = 10
_SHORTEST_NS = 20_000
_CLOCKS_NS = 2_000


def polling(trace: Trace, calls: ThreadCalls, idle: OfDevice, extent: pl.DataFrame) -> pl.DataFrame:
    """Give the loops of queries on a thread, each as one call.

    They are priced like a blocking call, if the thread itself launched what ended the idle time.

    Args:
        trace: where to look.
        calls: its calls by thread.
        idle: from `idle_times`.
        extent: `process`, `device`, `first_ns`, `last_ns`: when the device works.

    Returns:
        BLOCKED.
    """
    asks = (trace.api_calls["kind"] == ApiKind.QUERY.value).to_numpy()
    if np.count_nonzero(asks) < _FEWEST_QUERIES:
        return pl.DataFrame(schema=BLOCKED)
    loops = pl.concat([_loops(thread, rows, asks, calls) for thread, rows in calls])
    if loops.is_empty():
        return pl.DataFrame(schema=BLOCKED)
    found = on_each_device(loops, idle, extent, _CLOCKS_NS)
    found = found.with_columns(
        code=pl.lit("OA509"),
        api=trace.api_calls["name"].gather(found["call"]).cast(pl.String),
        inferred=pl.lit(True),
    )
    return conformed(_launching_next(trace, found))


def _loops(
    thread: int, rows: Numbers, asks: npt.NDArray[np.bool_], calls: ThreadCalls
) -> pl.DataFrame:
    """Give the runs of queries of a thread that are long enough to be a loop."""
    changes = np.flatnonzero(np.diff(asks[rows], prepend=False, append=False))
    first, beyond = changes[::2], changes[1::2]
    count = beyond - first
    start, end = calls.start_ns[rows[first]], calls.end_ns[rows[beyond - 1]]
    loops = (count >= _FEWEST_QUERIES) & (end - start >= _SHORTEST_NS)
    return pl.DataFrame(
        {
            "process": process_of(thread),
            "thread": thread,
            "call": rows[first][loops],
            "calls": count[loops],
            "start_ns": start[loops],
            "end_ns": end[loops],
        },
        schema=dict.fromkeys(
            ("process", "thread", "call", "calls", "start_ns", "end_ns"), pl.Int64
        ),
    )


def _launching_next(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """Let idle time count only where it ended with work that the same thread launched."""
    work = first_work(trace, found["works_again_ns"].drop_nulls()).select(
        "process", "device", "call", works_again_ns="start_ns"
    )
    work = work.with_columns(trace.api_calls["thread"].gather(work["call"]).alias("launched_by"))
    joined = found.join(work.drop("call"), on=["process", "device", "works_again_ns"], how="left")
    own = pl.col("launched_by") == pl.col("thread")
    return joined.with_columns(from_ns=pl.when(own).then("from_ns"))
