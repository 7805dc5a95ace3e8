"""How much of the GPU's time was launched inside any range at all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from overlapaudit import intervals
from overlapaudit.model.trace import Trace
from overlapaudit.spans.nesting import numbered


def inside(ranges: pl.DataFrame, at: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Tell of each (`thread`, `time_ns`) whether any of the ranges was open there.

    Args:
        ranges: from `numbered`.
        at: `thread`, `time_ns`; a null is inside none.
    """
    found = np.zeros(at.height, dtype=np.bool_)
    thread = at["thread"].fill_null(-1).to_numpy()
    times = at["time_ns"].fill_null(0).to_numpy()
    known = (at["thread"].is_not_null() & at["time_ns"].is_not_null()).to_numpy()
    for (one,), of_thread in ranges.partition_by("thread", as_dict=True).items():
        covered = intervals.union(of_thread["start_ns"].to_numpy(), of_thread["end_ns"].to_numpy())
        rows = np.flatnonzero(known & (thread == one))
        if len(covered) and len(rows):
            place = np.searchsorted(covered.start, times[rows], "right") - 1
            found[rows] = (place >= 0) & (times[rows] < covered.end[np.maximum(place, 0)])
    return found


def launched_inside(trace: Trace) -> npt.NDArray[np.bool_]:
    """Tell of each operation whether its launching call began inside a range of its thread."""
    calls = trace.api_calls.select(
        pl.col("thread", "start_ns").gather(trace.operations["api_row"])
    ).rename({"start_ns": "time_ns"})
    return inside(numbered(trace.ranges), calls)


def time_inside(trace: Trace) -> tuple[int, int]:
    """Give the busy time of all devices that was launched inside ranges, and all of it (ns).

    Both are unions for each device: time at which work from inside runs beside work from outside
    is time inside.
    """
    work = trace.operations.select(
        "process", "device", "start_ns", "end_ns", pl.Series(launched_inside(trace)).alias("inside")
    ).drop_nulls(["process", "device", "start_ns", "end_ns"])
    within = whole = 0
    for of_device in work.partition_by("process", "device"):
        start, end = of_device["start_ns"].to_numpy(), of_device["end_ns"].to_numpy()
        chosen = of_device["inside"].to_numpy()
        whole += intervals.union(start, end).length_ns
        within += intervals.union(start[chosen], end[chosen]).length_ns
    return within, whole
