"""What all ranges of one level and phase came to."""

from __future__ import annotations

import numpy as np
import polars as pl

from overlapaudit.model.document import Span
from overlapaudit.model.kinds import RangeKind
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import Window
from overlapaudit.spans.launches import LaunchOrder, by_capture
from overlapaudit.spans.nesting import numbered, outermost
from overlapaudit.spans.span_table import SPANS, spans_of

# Ranges that were open when a graph was captured speak for its replays at this level only: a step
# that captured a graph is not the step that replays it.
_LEVEL_AT_CAPTURE = "layer"
# Kept by no one: second ranges that markers emit for the same thing.
_DROPPED = "drop"


def phase_figures(trace: Trace, launched: LaunchOrder, window: Window) -> list[Span]:
    """Measure every level and phase that the rules know, by level and first appearance.

    Args:
        trace: where to look.
        launched: its operations by launch.
        window: what lies outside it does not count.
    """
    known = numbered(trace.ranges).filter(
        pl.col("level").is_not_null() & (pl.col("level").cast(pl.String) != _DROPPED)
    )
    ranges = outermost(known, ["level", "phase"])
    layers = ranges.filter(pl.col("level").cast(pl.String) == _LEVEL_AT_CAPTURE)
    spans = pl.concat(
        [
            spans_of(ranges, launched, trace.operations, window),
            _replayed(trace, layers, launched, window),
        ]
    )
    ranges = _inside(ranges, spans, window)
    if ranges.is_empty():
        return []
    figures = (
        ranges.select(
            "range_row", pl.col("level").cast(pl.String), pl.col("phase").cast(pl.String),
            host_ns=_host_ns(trace.ranges["end_ns"].gather(ranges["range_row"]), window),
            began="start_ns",
            elsewhere=(pl.col("kind") == RangeKind.START_END.value)
            & ~pl.col("thread").is_in(np.unique(launched.thread)),
        )
        .join(_sums(spans), on="range_row", how="left")
        .group_by("level", "phase")
        .agg(
            pl.len().alias("count"),
            pl.col("host_ns", "span_ns", "busy_ns", "operations").sum(),
            pl.col("began").min(),
            pl.col("elsewhere").all(),
        )
        .sort("level", "began", "phase")
        # Ranges that cross threads and whose own launches nothing: their work is on threads that
        # the trace does not tell.
        .with_columns(
            pl.when(~pl.col("elsewhere")).then(name).alias(name)
            for name in ("span_ns", "busy_ns", "operations")
        )
        .drop("began", "elsewhere")
    )  # fmt: skip
    return [Span(**row) for row in figures.rows(named=True)]


def _inside(ranges: pl.DataFrame, spans: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Keep the ranges that were open in the window, or whose work ran in it."""
    if window.start_ns is None or window.end_ns is None:
        return ranges
    was_open = (pl.col("start_ns") < window.end_ns) & (pl.col("end_ns") > window.start_ns)
    return ranges.filter(was_open | pl.col("range_row").is_in(spans["range_row"].implode()))


def _host_ns(end_ns: pl.Series, window: Window) -> pl.Expr:
    """Give how long each range was open in the window, 0 where it was not closed."""
    start, end = pl.col("start_ns"), pl.lit(end_ns)
    if window.start_ns is not None and window.end_ns is not None:
        start = pl.max_horizontal(start, pl.lit(window.start_ns))
        end = pl.min_horizontal(end, pl.lit(window.end_ns))
    return (
        pl.when(pl.lit(end_ns.is_not_null())).then(pl.max_horizontal(end - start, 0)).otherwise(0)
    )


def _replayed(
    trace: Trace, layers: pl.DataFrame, launched: LaunchOrder, window: Window
) -> pl.DataFrame:
    """Measure the replays of graphs that were captured in layers, each replay by itself.

    What was launched in a layer belongs there already, and counts once.
    """
    captured = by_capture(trace.operations, trace.table(TableName.GRAPH_NODES))
    if not len(captured.operation):
        return pl.DataFrame(schema=SPANS)
    elsewhere = ~np.isin(captured.operation, launched.operations_in(layers))
    return spans_of(layers, captured.where(elsewhere), trace.operations, window, each_launch=True)


def _sums(spans: pl.DataFrame) -> pl.DataFrame:
    return spans.group_by("range_row").agg(
        (pl.col("gpu_end_ns") - pl.col("gpu_start_ns")).sum().alias("span_ns"),
        pl.col("busy_ns", "operations").sum(),
    )
