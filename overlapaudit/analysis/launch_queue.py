"""Launches that took long because the queue of launches was full (OA508): no wait, no cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit.analysis.lanes import has_time
from overlapaudit.model.kinds import LAUNCHING_KINDS, ApiKind, MemoryKind
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import Window

_LONG_LAUNCH_NS = 20_000
# The queue holds about a thousand launches; from half of that on a long launch may be due to it.
_DEEP = 512
_COMMAND_BUFFER_FULL = 8


@dataclass(frozen=True, slots=True)
class FullQueue:
    """Launches of one thread that found the queue full.

    Attributes:
        process: globalPid.
        thread: globalTid.
        calls: how many.
        host_ns: how long they took.
        longest_ns: the longest.
        depth: the median number of operations that were launched and had not ended.
        recorded: whether the profiler itself recorded that the queue was full.
        first_ns: when the first began.
        last_ns: when the last ended.
    """

    process: int
    thread: int
    calls: int
    host_ns: int
    longest_ns: int
    depth: int | None
    recorded: bool
    first_ns: int
    last_ns: int


def full_queues(trace: Trace, window: Window) -> list[FullQueue]:
    """Find the threads whose launches of at least 20 µs found the queue full."""
    long = _long_launches(trace, window)
    if long.is_empty():
        return []
    long = long.with_columns(
        recorded=_recorded(trace, long), depth=pl.Series(_pending(trace, long), dtype=pl.Int64)
    ).filter(pl.col("recorded") | (pl.col("depth") >= _DEEP))
    rows = long.group_by("process", "thread", maintain_order=True).agg(
        pl.len().alias("calls"),
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("host_ns"),
        (pl.col("end_ns") - pl.col("start_ns")).max().alias("longest_ns"),
        pl.col("depth").median().cast(pl.Int64),
        pl.col("recorded").any(),
        pl.col("start_ns").min().alias("first_ns"),
        pl.col("end_ns").max().alias("last_ns"),
    )
    return [FullQueue(**row) for row in rows.rows(named=True)]


def _long_launches(trace: Trace, window: Window) -> pl.DataFrame:
    calls = trace.api_calls.select(
        "kind", "process", "thread", "start_ns", "end_ns", "correlation"
    ).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("call"))
    long = calls.filter(
        pl.col("kind").is_in(LAUNCHING_KINDS)
        & (pl.col("end_ns") - pl.col("start_ns") >= _LONG_LAUNCH_NS)
    )
    if window.start_ns is not None and window.end_ns is not None:
        long = long.filter(
            (pl.col("start_ns") < window.end_ns) & (pl.col("end_ns") > window.start_ns)
        )
    return long.filter(~pl.col("call").is_in(_blocking_copies(trace, long).implode()))


def _blocking_copies(trace: Trace, long: pl.DataFrame) -> pl.Series:
    """Give the calls that last as long as their copy, for reasons of their own."""
    pageable = MemoryKind.PAGEABLE.value
    copies = trace.operations.select("api_row", "source", "destination").filter(
        pl.col("api_row").is_in(long.filter(pl.col("kind") == ApiKind.COPY.value)["call"].implode())
    )
    names = trace.api_calls["name"].gather(copies["api_row"]).cast(pl.String)
    blocks = (
        ((copies["source"] == pageable) | (copies["destination"] == pageable)).fill_null(False)
    ) | ~names.str.contains("Async").fill_null(False)
    found: pl.Series = copies["api_row"].filter(blocks)
    return found


def _recorded(trace: Trace, long: pl.DataFrame) -> pl.Series:
    full = trace.table(TableName.OVERHEADS).filter(pl.col("type") == _COMMAND_BUFFER_FULL)
    thread = pl.col("thread")
    seen = (
        full.select("correlation", (thread - (thread & 0xFFFFFF)).alias("process"))
        .unique()
        .with_columns(recorded=pl.lit(True))
    )
    joined = long.select("process", "correlation").join(
        seen, on=["process", "correlation"], how="left", maintain_order="left"
    )
    return joined["recorded"].fill_null(False)


def _pending(trace: Trace, long: pl.DataFrame) -> np.ndarray:
    """Count, for each call, the operations of its process that were launched but had not ended."""
    depth = np.zeros(long.height, dtype=np.int64)
    operations = trace.operations.select("process", "start_ns", "end_ns", "api_row").filter(
        pl.col("process").is_in(long["process"].unique().implode()) & has_time()
    )
    operations = operations.drop_nulls("api_row")
    process = long["process"].to_numpy()
    at = long["start_ns"].to_numpy()
    for (one,), rows in operations.partition_by("process", as_dict=True).items():
        mine = process == one
        launched = trace.api_calls["start_ns"].gather(rows["api_row"]).sort().to_numpy()
        ended = rows["end_ns"].sort().to_numpy()
        depth[mine] = np.searchsorted(launched, at[mine], "left") - np.searchsorted(
            ended, at[mine], "right"
        )
    return depth
