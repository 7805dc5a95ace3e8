"""Hidden waits by call site: the waits of the host that an engine is not meant to make."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from overlapaudit.analysis.host_waits import SHORTEST_WAIT_NS, host_waits
from overlapaudit.analysis.wait_rules import codes_of
from overlapaudit.classify.range_rules import names_of
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import Window
from overlapaudit.spans.nesting import innermost, stacked

# Where an engine is meant to wait: it needs the tokens of a step before it can go on.
MEANT_TO_WAIT = (("iteration", "result_d2h"), ("iteration", "process"))


@dataclass(frozen=True, slots=True)
class WaitSite:
    """Waits of one kind by one call in one range of a thread.

    Attributes:
        code: the finding code.
        api: the call.
        process: globalPid.
        thread: globalTid.
        range_text: what the innermost range is called in which the calls were made.
        devices: whose work they waited for.
        count: calls.
        host_wait_ns: how long they took.
        gpu_idle_ns: idle time directly after them; None where it is not known what they waited for.
        longest_wait_ns: the longest of them.
        first_ns: when the first began.
        last_ns: when the last ended.
    """

    code: str
    api: str
    process: int
    thread: int
    range_text: str | None
    devices: tuple[int, ...]
    count: int
    host_wait_ns: int
    gpu_idle_ns: int | None
    longest_wait_ns: int
    first_ns: int
    last_ns: int


def hidden_syncs(trace: Trace, window: Window, links: pl.DataFrame) -> list[WaitSite]:
    """Find the hidden waits of a window, by call site, dearest first.

    Waits of less than 20 µs are none, nor are those in ranges in which the engine is meant to wait.
    `links` are the records that waits on events wait for, from `resolve_waits`.
    """
    waits = host_waits(trace, window, links)
    waits = waits.filter(pl.col("wait_ns") >= SHORTEST_WAIT_NS)
    if waits.is_empty():
        return []
    calls, ranges = trace.api_calls, trace.ranges
    at = waits.select("thread", time_ns="start_ns")
    range_row = innermost(stacked(ranges), at)
    meant = _is_meant(ranges).gather(range_row).fill_null(False)
    sites = (
        waits.with_columns(
            codes_of(trace, waits).alias("code"),
            calls["name"].gather(waits["call"]).cast(pl.String).alias("api"),
            names_of(ranges.select(pl.col("text", "facts").gather(range_row))).alias("range_text"),
        )
        .filter(~meant)
        .group_by("code", "api", "process", "thread", "range_text")
        .agg(
            pl.col("device").drop_nulls().unique().sort().alias("devices"),
            pl.col("call").n_unique().alias("count"),
            pl.col("wait_ns").sum().alias("host_wait_ns"),
            pl.when(pl.col("idle_ns").is_not_null().any()).then(pl.col("idle_ns").sum())
            .alias("gpu_idle_ns"),
            pl.col("wait_ns").max().alias("longest_wait_ns"),
            pl.col("start_ns").min().alias("first_ns"),
            pl.col("end_ns").max().alias("last_ns"),
        )
        .sort(
            ["gpu_idle_ns", "host_wait_ns", "code", "api", "thread", "range_text"],
            descending=[True, True, False, False, False, False],
            nulls_last=True,
        )
    )  # fmt: skip
    return [WaitSite(**{**row, "devices": tuple(row["devices"])}) for row in sites.rows(named=True)]


def _is_meant(ranges: pl.DataFrame) -> pl.Series:
    """Tell the ranges in which waiting is meant."""
    level, phase = pl.col("level").cast(pl.String), pl.col("phase").cast(pl.String)
    meant = pl.any_horizontal((level == one) & (phase == other) for one, other in MEANT_TO_WAIT)
    return ranges.select(meant.fill_null(False).alias("meant")).to_series()
