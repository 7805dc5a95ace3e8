"""Hidden waits by call site: the waits of the host that an engine is not meant to make."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.blocked import conformed
from overlapaudit.analysis.blocking_calls import blocking_calls
from overlapaudit.analysis.comm_waits import on_comm_streams, silent_comm_waits
from overlapaudit.analysis.host_waits import SHORTEST_WAIT_NS, host_waits
from overlapaudit.analysis.idle_time import OfDevice, own_idle_time
from overlapaudit.analysis.polling import polling
from overlapaudit.analysis.thread_calls import ThreadCalls
from overlapaudit.analysis.wait_rules import codes_of
from overlapaudit.classify.range_rules import names_of
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import Window
from overlapaudit.spans.inside import inside
from overlapaudit.spans.iterations import Iterations
from overlapaudit.spans.nesting import innermost, numbered, stacked
from overlapaudit_nvtx.vocabulary import PHASES


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
        idle: idle time directly after them, for each of the devices that had any; None where it is
            not known what they waited for.
        longest_wait_ns: the longest of them.
        first_ns: when the first began.
        last_ns: when the last ended.
        inferred: whether any of them is concluded, not recorded.
    """

    code: str
    api: str
    process: int
    thread: int
    range_text: str | None
    devices: tuple[int, ...]
    count: int
    host_wait_ns: int
    idle: tuple[IntervalSet, ...] | None
    longest_wait_ns: int
    first_ns: int
    last_ns: int
    inferred: bool

    @property
    def gpu_idle_ns(self) -> int | None:
        """Give the idle time of all devices."""
        return None if self.idle is None else sum(one.length_ns for one in self.idle)


def blocked_threads(
    trace: Trace,
    links: pl.DataFrame,
    idle: OfDevice,
    extent: pl.DataFrame,
    calls: ThreadCalls,
    holes: pl.DataFrame,
    iterations: Mapping[int, Iterations],
    blind: Collection[int],
) -> pl.DataFrame:
    """Find every call of at least 20 µs in which a thread was held up, and what it cost.

    Args:
        trace: where to look.
        links: the records that waits on events wait for, from `resolve_waits`.
        idle: from `idle_times`.
        extent: `process`, `device`, `first_ns`, `last_ns`: when the device works.
        calls: from `thread_calls`.
        holes: from `host_holes`.
        iterations: from `iterations`.
        blind: processes of which it is not known when their devices were idle.

    Returns:
        BLOCKED, with `idle_start_ns` and `idle_end_ns`: the idle time that each owns.
    """
    waits = host_waits(trace, links)
    waits = waits.filter(pl.col("wait_ns") >= SHORTEST_WAIT_NS)
    codes = codes_of(trace, waits)
    waits = waits.with_columns(
        code=pl.when(pl.Series(codes == "OA502") & on_comm_streams(trace, waits))
        .then(pl.lit("OA506"))
        .otherwise(codes),
        api=trace.api_calls["name"].gather(waits["call"]).cast(pl.String),
        inferred=pl.lit(False),
        calls=pl.lit(1),
    )
    building = _while_serving(blocking_calls(trace, idle, extent), iterations)
    found = pl.concat(
        [
            conformed(waits),
            building,
            polling(trace, calls, idle, extent),
            silent_comm_waits(trace, holes, idle, extent),
        ]
    )
    unknown = pl.col("process").is_in(list(blind))
    found = found.with_columns(
        pl.when(~unknown).then(name).alias(name) for name in ("device", "until_ns", "from_ns")
    )
    return own_idle_time(found, idle, trace)


def hidden_syncs(
    trace: Trace, blocked: pl.DataFrame, window: Window, allowed: Sequence[str]
) -> list[WaitSite]:
    """Give the hidden waits of a window by call site, dearest first.

    Args:
        trace: where they are from.
        blocked: from `blocked_threads`.
        window: waits outside it do not count, idle time is cut to it.
        allowed: ranges in which the engine is meant to wait, as `level.phase` or by name; in a
            name, * stands for anything.
    """
    blocked = in_window(blocked, window)
    if blocked.is_empty():
        return []
    ranges = trace.ranges
    at = blocked.select("thread", time_ns="start_ns")
    range_row = innermost(stacked(ranges), at)
    meant = inside(_meant_to_wait(ranges, allowed), at)
    sites = (
        blocked.with_columns(
            names_of(ranges.select(pl.col("text", "facts").gather(range_row))).alias("range_text"),
        )
        .filter(~pl.Series(meant))
        .group_by("code", "api", "process", "thread", "range_text")
        .agg(
            pl.col("device").drop_nulls().unique().sort().alias("devices"),
            # A call that waited for several devices has a row for each.
            pl.col("calls").filter(pl.col("call").is_first_distinct()).sum().alias("count"),
            pl.col("wait_ns").filter(pl.col("call").is_first_distinct()).sum()
            .alias("host_wait_ns"),
            pl.col("device").is_not_null().any().alias("priced"),
            pl.struct("device", "idle_start_ns", "idle_end_ns")
            .filter(pl.col("idle_end_ns") > pl.col("idle_start_ns"))
            .alias("idle"),
            pl.col("wait_ns").max().alias("longest_wait_ns"),
            pl.col("start_ns").min().alias("first_ns"),
            pl.col("end_ns").max().alias("last_ns"),
            pl.col("inferred").any(),
        )
    )  # fmt: skip
    found = [_site(row, sites["idle"][number]) for number, row in enumerate(sites.rows(named=True))]
    return sorted(found, key=_dearest_first)


def _site(row: dict[str, object], idle: pl.Series) -> WaitSite:
    priced = row.pop("priced")
    sets = None
    if priced:
        of_device = idle.struct.unnest().partition_by("device", maintain_order=True)
        sets = tuple(
            intervals.union(one["idle_start_ns"].to_numpy(), one["idle_end_ns"].to_numpy())
            for one in of_device
        )
    devices = row.pop("devices")
    assert isinstance(devices, list)
    return WaitSite(**{**row, "idle": sets, "devices": tuple(devices)})  # type: ignore[arg-type]


def _dearest_first(site: WaitSite) -> tuple[object, ...]:
    idle_ns = site.gpu_idle_ns
    return (
        idle_ns is None, -(idle_ns or 0), -site.host_wait_ns, site.code, site.api,
        site.process, site.thread, site.range_text or "",
    )  # fmt: skip


def in_window(blocked: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Give what was blocked in a window, or cost idle time in it; that time is cut to it."""
    if window.start_ns is None or window.end_ns is None:
        return blocked
    start, end = window.start_ns, window.end_ns
    return blocked.with_columns(
        pl.col("idle_start_ns").clip(start, end),
        pl.col("idle_end_ns").clip(start, end),
        wait_ns=(pl.col("end_ns").clip(start, end) - pl.col("start_ns").clip(start, end)),
    ).filter(
        ((pl.col("start_ns") < end) & (pl.col("end_ns") > start))
        | (pl.col("idle_end_ns") > pl.col("idle_start_ns")).fill_null(False)
    )


def _while_serving(building: pl.DataFrame, iterations: Mapping[int, Iterations]) -> pl.DataFrame:
    """Drop what was built or allocated before the end of a process' first iteration."""
    if building.is_empty() or not iterations:
        return building
    serving = pl.DataFrame(
        {
            "process": list(iterations),
            "serves_ns": [int(one.end_ns[0]) for one in iterations.values()],
        },
        schema={"process": pl.Int64, "serves_ns": pl.Int64},
    )
    joined = building.join(serving, on="process", how="left", maintain_order="left")
    return joined.filter(
        (pl.col("start_ns") >= pl.col("serves_ns")).fill_null(True)
    ).drop("serves_ns")  # fmt: skip


def _meant_to_wait(ranges: pl.DataFrame, allowed: Sequence[str]) -> pl.DataFrame:
    """Give the ranges in which waiting is meant."""
    meant = pl.repeat(False, ranges.height, dtype=pl.Boolean, eager=True)
    for pattern in allowed:
        level, _, phase = pattern.partition(".")
        if phase in PHASES.get(level, ()):
            is_it = (pl.col("level") == level) & (pl.col("phase") == phase)
            meant |= ranges.select(is_it.fill_null(False).alias("meant")).to_series()
        else:
            meant |= _named(ranges, pattern)
    places = numbered(ranges)
    return places.filter(meant.gather(places["range_row"]))


def _named(ranges: pl.DataFrame, pattern: str) -> pl.Series:
    """Tell the ranges whose name fits a pattern."""
    begins = pattern.partition("*")[0]
    candidates = ranges.select("text", "facts").with_row_index("row")
    candidates = candidates.filter(pl.col("text").str.starts_with(begins))
    names = names_of(candidates)
    fits = [name for name in names.unique().drop_nulls() if _fits(name, pattern)]
    hits = candidates["row"].filter(names.is_in(fits))
    return pl.int_range(ranges.height, eager=True, dtype=pl.UInt32).is_in(hits.implode())


def _fits(name: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None
