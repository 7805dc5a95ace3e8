"""How much of the GPU's time was launched inside any range at all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from overlapaudit import intervals
from overlapaudit.model.trace import Trace
from overlapaudit.spans.nesting import numbered


def launched_inside(trace: Trace) -> npt.NDArray[np.bool_]:
    """Tell of each operation whether its launching call began inside a range of its thread."""
    calls = trace.api_calls.select(pl.col("thread", "start_ns").gather(trace.operations["api_row"]))
    inside = np.zeros(calls.height, dtype=np.bool_)
    thread = calls["thread"].fill_null(-1).to_numpy()
    launched = calls["start_ns"].fill_null(0).to_numpy()
    known = calls["thread"].is_not_null().to_numpy()
    for (one,), ranges in numbered(trace.ranges).partition_by("thread", as_dict=True).items():
        covered = intervals.union(ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy())
        rows = np.flatnonzero(known & (thread == one))
        if len(covered) and len(rows):
            place = np.searchsorted(covered.start, launched[rows], "right") - 1
            inside[rows] = (place >= 0) & (launched[rows] < covered.end[np.maximum(place, 0)])
    return inside


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
