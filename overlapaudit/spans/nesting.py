"""Which pushed range is innermost on a (thread, domain) at a time, and which are outermost.

Pushed ranges of a (thread, domain) form a stack. Start/end ranges belong to no stack: they may
cross each other and end on another thread.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from overlapaudit.model.kinds import RangeKind

_STACK = ["thread", "domain_id"]
# A range that was never closed is open until the end, whenever that is.
NEVER_NS = (1 << 63) - 1


def stacked(ranges: pl.DataFrame) -> pl.DataFrame:
    """Give the pushed ranges that last some time: `range_row` and what places them.

    Args:
        ranges: RANGES. Ranges that were not closed end never.
    """
    return (
        numbered(ranges)
        .filter(pl.col("kind") == RangeKind.PUSH_POP.value)
        .filter(pl.col("end_ns") > pl.col("start_ns"))
    )


def numbered(ranges: pl.DataFrame) -> pl.DataFrame:
    """Give what places the ranges, with their row number as `range_row`, marks left out."""
    meaning = [name for name in ("level", "phase") if name in ranges.columns]
    return (
        ranges.select(
            pl.int_range(pl.len(), dtype=pl.Int64).alias("range_row"),
            "kind",
            "thread",
            pl.col("domain_id").fill_null(0),
            "start_ns",
            pl.col("end_ns").fill_null(NEVER_NS),
            *meaning,
        )
        .filter(pl.col("kind") != RangeKind.MARK.value)
        .drop_nulls(["thread", "start_ns"])
    )


def innermost(ranges: pl.DataFrame, at: pl.DataFrame) -> pl.Series:
    """Give for each (`thread`, `time_ns`) the row of the innermost range that is open there.

    Of the innermost ranges of several domains the one that was opened last counts. Null where no
    range is open.

    Args:
        ranges: from `stacked`.
        at: `thread`, `time_ns`, in any order.
    """
    asked = at.select("thread", "time_ns").with_row_index("asked").sort("time_ns")
    ranges = _holding(ranges, at)
    found = []
    for (_domain,), of_domain in ranges.partition_by("domain_id", as_dict=True).items():
        found.append(
            asked.join_asof(
                _open_after(of_domain),
                on="time_ns",
                by="thread",
                strategy="backward",
                check_sortedness=False,
            )
            .drop_nulls("range_row")
            .select("asked", "range_row")
        )
    if not found:
        return pl.Series("range_row", [None] * at.height, dtype=pl.Int64)
    opened = ranges.select("range_row", "start_ns")
    best = (
        pl.concat(found)
        .join(opened, on="range_row", how="left")
        .sort("asked", "start_ns", "range_row")
        .unique("asked", keep="last", maintain_order=True)
    )
    joined = (
        asked.select("asked")
        .sort("asked")
        .join(best.select("asked", "range_row"), on="asked", how="left", maintain_order="left")
    )
    return joined["range_row"]


def _holding(ranges: pl.DataFrame, at: pl.DataFrame) -> pl.DataFrame:
    """Keep the ranges that are open at one of the moments; the others hide none of them."""
    times = {
        thread: moments["time_ns"].sort().to_numpy()
        for (thread,), moments in at.partition_by("thread", as_dict=True).items()
    }
    kept = [
        of_thread.filter(
            pl.Series(
                np.searchsorted(times[thread], of_thread["start_ns"].to_numpy(), "left")
                < np.searchsorted(times[thread], of_thread["end_ns"].to_numpy(), "left")
            )
        )
        for (thread,), of_thread in ranges.partition_by("thread", as_dict=True).items()
        if thread in times
    ]
    return pl.concat([ranges.clear(), *kept])


def _open_after(ranges: pl.DataFrame) -> pl.DataFrame:
    """Give the innermost open range after each moment at which a stack changes (null: none).

    At depth d the range that is open is the one that was pushed last to depth d.
    """
    pushes = ranges.select(
        "thread", "range_row", time_ns="start_ns", step=pl.lit(1, pl.Int64), other="end_ns"
    )
    pops = ranges.select(
        "thread", "range_row", time_ns="end_ns", step=pl.lit(-1, pl.Int64), other="start_ns"
    )
    edges = (
        pl.concat([pushes, pops])
        # At one moment pops come first, then of several pushes the one that lasts longest; of
        # equal ranges the first in the export is the outer one.
        .sort(
            ["thread", "time_ns", "step", "other", "range_row"],
            descending=[False, False, False, True, False],
        )
        .with_columns(pl.col("step").cum_sum().over("thread").alias("depth"))
    )
    pushed = pl.when(pl.col("step") == 1).then("range_row")
    return (
        edges.with_columns(pushed.forward_fill().over("thread", "depth").alias("open"))
        .with_columns(pl.when(pl.col("depth") > 0).then("open").alias("range_row"))
        .unique(["thread", "time_ns"], keep="last", maintain_order=True)
        .select("thread", "time_ns", "range_row")
        .sort("time_ns")
    )


def outermost(ranges: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Keep the ranges that lie in no other of their kind, so that no time counts twice.

    Args:
        ranges: from `numbered`.
        by: what makes two ranges of one kind, beside the stack. Start/end ranges all stay.

    A pushed range that was never closed ends here where the next of its kind begins: it is not
    known that it held that one.
    """
    keys = [*_STACK, *by]
    pushed = pl.col("kind") == RangeKind.PUSH_POP.value
    reached = pl.col("end_ns").cum_max().shift(1).over(keys)
    stack = (
        ranges.filter(pushed)
        .sort("start_ns", "end_ns", "range_row", descending=[False, True, False])
        .with_columns(
            pl.when(pl.col("end_ns") == NEVER_NS)
            .then(pl.col("start_ns").shift(-1).over(keys).fill_null(NEVER_NS))
            .otherwise("end_ns")
            .alias("end_ns")
        )
        .filter((pl.col("start_ns") >= reached).fill_null(True))
    )
    return pl.concat([stack, ranges.filter(~pushed)]).sort("range_row")
