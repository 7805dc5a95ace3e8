"""Holes of the host: times between two CUDA calls of a thread in which it made none."""

from __future__ import annotations

import numpy as np
import polars as pl

from overlapaudit.analysis.thread_calls import ThreadCalls, process_of

SHORTEST_HOLE_NS = 50_000

# One row for each hole.
HOLES: dict[str, pl.DataType] = {
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "before": pl.Int64(),  # the call that ended last before it: row of API_CALLS
    "after": pl.Int64(),  # the call that ended it
}


def host_holes(calls: ThreadCalls) -> pl.DataFrame:
    """Give the holes of at least 50 µs of every thread, in the order of (thread, time)."""
    parts = [pl.DataFrame(schema=HOLES)]
    for thread, rows in calls:
        start = calls.start_ns[rows]
        # Driver calls lie inside those of the runtime: what counts is how far any reached.
        reached = np.maximum.accumulate(calls.end_ns[rows])
        holes = np.flatnonzero(start[1:] - reached[:-1] >= SHORTEST_HOLE_NS)
        parts.append(
            pl.DataFrame(
                {
                    "process": process_of(thread),
                    "thread": thread,
                    "start_ns": reached[holes],
                    "end_ns": start[holes + 1],
                    "before": rows[holes],
                    "after": rows[holes + 1],
                },
                schema=HOLES,
            )
        )
    return pl.concat(parts)
