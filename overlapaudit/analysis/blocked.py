"""What all searches for blocked host threads give: one row for each call and device."""

from __future__ import annotations

import numpy as np
import polars as pl

from overlapaudit.analysis.host_holes import SHORTEST_HOLE_NS
from overlapaudit.analysis.idle_time import OfDevice

# `from_ns`: from when on idle time of the device counts; null: none does.
BLOCKED: dict[str, pl.DataType] = {
    "code": pl.String(),
    "api": pl.String(),
    "inferred": pl.Boolean(),  # what happened is concluded, not recorded
    "call": pl.Int64(),  # row of API_CALLS
    "calls": pl.Int64(),  # how many calls this row stands for
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
    "device": pl.Int64(),
    "until_ns": pl.Int64(),  # the end of what was waited for, where that is known
    "from_ns": pl.Int64(),
    "to_ns": pl.Int64(),  # until when at most; null: until the device works again
}


def conformed(frame: pl.DataFrame) -> pl.DataFrame:
    """Give the columns of BLOCKED; those that the frame lacks become null."""
    return frame.select(
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in BLOCKED.items()
    )


def on_each_device(
    calls: pl.DataFrame, idle: OfDevice, extent: pl.DataFrame, clocks_ns: int
) -> pl.DataFrame:
    """Give calls that hold up a thread, each with every device of its process.

    Such a call need not have waited for the GPU. The device's idle time counts from when the call
    began, or from when the device fell idle while it lasted, if it was idle when the call returned.
    Where it had been idle before, and the thread does something else after the call, idle time
    counts until the return only. Calls before the first or after the last work of a device hold up
    nothing.

    Args:
        calls: `process`, `start_ns`, `end_ns` and what else there is.
        idle: from `idle_times`.
        extent: `process`, `device`, `first_ns`, `last_ns`.
        clocks_ns: how far the end of an operation may seem to lie behind the call's return.

    Returns:
        The calls with `device`, `wait_ns`, `from_ns`, `to_ns` and `works_again_ns` (when the
        device's idle time ends), the last three null where the device was not idle.
    """
    rows = calls.join(extent, on="process").filter(
        (pl.col("end_ns") > pl.col("first_ns")) & (pl.col("start_ns") < pl.col("last_ns"))
    )
    begins, ends = np.zeros((2, rows.height), dtype=np.int64)
    known = np.zeros(rows.height, dtype=np.bool_)
    for (process, device), gaps in idle.items():
        mine = np.flatnonzero(
            ((rows["process"] == process) & (rows["device"] == device)).to_numpy()
        )
        if not len(gaps) or not len(mine):
            continue
        start, end = rows["start_ns"].to_numpy()[mine], rows["end_ns"].to_numpy()[mine]
        gap = np.searchsorted(gaps.start, end + clocks_ns, "right") - 1
        at = np.maximum(gap, 0)
        begins[mine] = np.maximum(start, gaps.start[at])
        ends[mine] = gaps.end[at]
        known[mine] = (gap >= 0) & (end < gaps.end[at])
    return (
        rows.with_columns(
            from_ns=pl.when(pl.Series(known)).then(pl.Series(begins)),
            works_again_ns=pl.when(pl.Series(known)).then(pl.Series(ends)),
            wait_ns=pl.col("end_ns") - pl.col("start_ns"),
        )
        .with_columns(
            to_ns=pl.when(
                (pl.col("from_ns") == pl.col("start_ns"))
                & (pl.col("works_again_ns") - pl.col("end_ns") >= SHORTEST_HOLE_NS)
            ).then("end_ns")
        )
        .drop("first_ns", "last_ns")
    )
