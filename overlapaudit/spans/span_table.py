"""For every range: how long it was open, and what the GPU work launched in it came to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.model.window import Window
from overlapaudit.spans.launches import LaunchOrder, Rows

# One row for each range in which work was launched, or for each of its launches. `range_row` is a
# row of RANGES.
SPANS: dict[str, pl.DataType] = {
    "range_row": pl.Int64(),
    "launch": pl.Int64(),  # where launches are told apart: the row of API_CALLS
    "operations": pl.Int64(),
    "gpu_start_ns": pl.Int64(),
    "gpu_end_ns": pl.Int64(),
    "busy_ns": pl.Int64(),  # the union of its work
}

# From this many (range, operation) pairs on the compiled loop pays for loading numba.
_COMPILED_FROM_PAIRS = 500_000
# Ranges are taken together until they hold this many operations, so that memory stays bounded.
_PAIRS_AT_ONCE = 4_000_000
_PAIRS_A_THREAD = 400_000


def spans_of(
    ranges: pl.DataFrame,
    launched: LaunchOrder,
    operations: pl.DataFrame,
    window: Window,
    *,
    each_launch: bool = False,
) -> pl.DataFrame:
    """Measure the GPU work that was launched in each range, cut to a window.

    Args:
        ranges: `range_row`, `thread`, `start_ns`, `end_ns`, all known.
        launched: the operations by launch, or by capture.
        operations: OPERATIONS.
        window: work outside it does not count.
        each_launch: measure the launches of a range apart, as the replays of a captured graph.
    """
    order = _timed(launched, operations, window)
    first, last = order.launched.slices(
        ranges["thread"].to_numpy(), ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()
    )
    rows = ranges["range_row"].to_numpy()
    if not each_launch and int((last - first).sum()) >= _COMPILED_FROM_PAIRS:
        return _measure_compiled(rows, first, last, order)
    parts = [
        _measure(rows[part], first[part], last[part], order, each_launch=each_launch)
        for part in _parts(last - first, _PAIRS_AT_ONCE)
    ]
    return pl.concat([pl.DataFrame(schema=SPANS), *parts])


class _Timed:
    """Launched operations that have time in the window, with that time."""

    def __init__(self, launched: LaunchOrder, start: Rows, end: Rows) -> None:
        self.launched = launched
        self.start = start
        self.end = end


def _timed(launched: LaunchOrder, operations: pl.DataFrame, window: Window) -> _Timed:
    picked = operations.select("start_ns", "end_ns")[launched.operation]
    known = picked["start_ns"].is_not_null() & picked["end_ns"].is_not_null()
    start = picked["start_ns"].fill_null(0).to_numpy()
    end = picked["end_ns"].fill_null(0).to_numpy()
    keep = known.to_numpy() & (end >= start)
    if window.start_ns is not None and window.end_ns is not None:
        keep &= (end > window.start_ns) & (start < window.end_ns)
        start, end = np.maximum(start, window.start_ns), np.minimum(end, window.end_ns)
    if keep.all():
        return _Timed(launched, start, end)
    return _Timed(
        launched.where(keep),
        start[keep],
        end[keep],
    )


def _parts(sizes: Rows, pairs: int) -> Iterator[slice]:
    """Cut ranges into runs that hold about this many operations."""
    if not len(sizes):
        return
    number = np.cumsum(sizes) // pairs
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(sizes)], strict=True):
        yield slice(int(begin), int(end))


def _measure_compiled(rows: Rows, first: Rows, last: Rows, order: _Timed) -> pl.DataFrame:
    """Do what `_measure` does for whole ranges; what the loop gives up is left to it."""
    from overlapaudit.spans.slice_loops import measure_slices  # noqa: PLC0415 - numba is slow

    holds = last > first
    rows, first, last = rows[holds], first[holds], last[holds]
    begins, ends, busy = np.empty_like(rows), np.empty_like(rows), np.empty_like(rows)

    def measure(part: slice) -> int:
        return int(
            measure_slices(
                first[part], last[part], order.start, order.end,
                begins[part], ends[part], busy[part],
            )
        )  # fmt: skip

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
        given_up = sum(threads.map(measure, _parts(last - first, _PAIRS_A_THREAD)))
    measured = pl.DataFrame(
        {
            "range_row": rows,
            "launch": None,
            "operations": last - first,
            "gpu_start_ns": begins,
            "gpu_end_ns": ends,
            "busy_ns": busy,
        },
        schema=SPANS,
    )
    if not given_up:
        return measured
    left = busy < 0
    parts = [
        _measure(rows[left][part], first[left][part], last[left][part], order, each_launch=False)
        for part in _parts(last[left] - first[left], _PAIRS_AT_ONCE)
    ]
    return pl.concat([measured.filter(pl.col("busy_ns") >= 0), *parts]).sort("range_row")


def _measure(
    rows: Rows, first: Rows, last: Rows, order: _Timed, *, each_launch: bool
) -> pl.DataFrame:
    counts = last - first
    range_of = np.repeat(np.arange(len(rows)), counts)
    position = np.arange(len(range_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    position += np.repeat(first, counts)
    launch = order.launched.launch[position]
    if each_launch:
        by_launch = np.lexsort((position, launch, range_of))
        range_of, position, launch = range_of[by_launch], position[by_launch], launch[by_launch]
    else:
        launch = np.zeros_like(launch)
    new = np.diff(range_of, prepend=-1) != 0
    new[1:] |= np.diff(launch) != 0
    begins = np.flatnonzero(new)
    if not len(begins):
        return pl.DataFrame(schema=SPANS)
    start, end = order.start[position], order.end[position]
    group = np.cumsum(new) - 1
    busy = np.zeros(len(begins), dtype=np.int64)
    timed, lengths = intervals.length_by_group(start, end, group)
    busy[timed] = lengths
    return pl.DataFrame(
        {
            "range_row": rows[range_of[begins]],
            "launch": pl.Series(launch[begins]) if each_launch else None,
            "operations": np.diff(begins, append=len(group)),
            "gpu_start_ns": np.minimum.reduceat(start, begins),
            "gpu_end_ns": np.maximum.reduceat(end, begins),
            "busy_ns": busy,
        },
        schema=SPANS,
    )
