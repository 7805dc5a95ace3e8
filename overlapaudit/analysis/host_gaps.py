"""Idle time of a device because the thread that launches its work was busy elsewhere (OA511)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.idle_time import OfDevice, first_work
from overlapaudit.classify.range_rules import names_of
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import Window
from overlapaudit.spans.nesting import innermost, stacked
from overlapaudit_nvtx.vocabulary import LEVELS

_SHORTEST_IDLE_NS = 20_000
_CAUSES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class HoleSite:
    """Holes of one thread in one range, while a device had nothing to do.

    Attributes:
        process: globalPid.
        thread: globalTid.
        device: the device that was idle.
        range_text: the innermost range of a known level open in the middle of the holes.
        inside: the ranges of any kind in which most of the idle time was spent, with that time.
        count: holes.
        idle: when the device was idle for them.
        longest_ns: the longest hole.
        host_ns: all holes together.
        os_calls: the calls of the operating system that lasted longest in them; None where those
            were not recorded.
        first_ns: when the first hole began.
        last_ns: when the last ended.
    """

    process: int
    thread: int
    device: int
    range_text: str | None
    inside: tuple[tuple[str, int], ...]
    count: int
    idle: IntervalSet
    longest_ns: int
    host_ns: int
    os_calls: tuple[str, ...] | None
    first_ns: int
    last_ns: int


def hole_sites(
    trace: Trace, holes: pl.DataFrame, idle: OfDevice, blocked: pl.DataFrame, window: Window
) -> list[HoleSite]:
    """Find the holes that left a device idle, by thread and range, dearest first.

    A hole counts where the device's idle time ended with work that the same thread launched after
    the hole, and where no blocked call owns that idle time.

    Args:
        trace: where to look.
        holes: HOLES.
        idle: from `idle_times`.
        blocked: from `blocked_threads`.
        window: what lies outside it does not count.
    """
    if holes.is_empty():
        return []
    pieces = [_unowned(key, gaps, blocked) for key, gaps in idle.items() if len(gaps)]
    if not pieces:
        return []
    late = _launched_late(trace, pl.concat(pieces))
    cut = _cut(late, holes, window)
    return _sites(trace, cut)


def _unowned(key: tuple[int, int], gaps: IntervalSet, blocked: pl.DataFrame) -> pl.DataFrame:
    """Give the parts of the gaps that no blocked call owns."""
    process, device = key
    claims = blocked.filter(
        (pl.col("process") == process)
        & (pl.col("device") == device)
        & (pl.col("idle_end_ns") > pl.col("idle_start_ns"))
    )
    owned = intervals.union(claims["idle_start_ns"].to_numpy(), claims["idle_end_ns"].to_numpy())
    left = intervals.subtract(gaps, owned)
    long = left.end - left.start >= _SHORTEST_IDLE_NS
    start, end = left.start[long], left.end[long]
    return pl.DataFrame(
        {
            "process": process,
            "device": device,
            "idle_start_ns": start,
            "idle_end_ns": end,
            "works_again_ns": gaps.end[np.searchsorted(gaps.start, start, "right") - 1],
        },
        schema_overrides=dict.fromkeys(
            ("process", "device", "idle_start_ns", "idle_end_ns", "works_again_ns"), pl.Int64
        ),
    )


def _launched_late(trace: Trace, pieces: pl.DataFrame) -> pl.DataFrame:
    """Add the thread that launched what ended each gap, where it did so after the gap began."""
    work = first_work(trace, pieces["works_again_ns"])
    work = work.with_columns(trace.api_calls["thread"].gather(work["call"]).alias("thread"))
    return pieces.join(
        work.select("process", "device", "launched_ns", "thread", works_again_ns="start_ns"),
        on=["process", "device", "works_again_ns"],
    ).filter(pl.col("launched_ns") >= pl.col("idle_start_ns"))


def _cut(late: pl.DataFrame, holes: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Give the parts of the idle time that lie in holes of the launching thread.

    Returns:
        `process`, `device`, `thread`, `hole` (row of HOLES), `start_ns`, `end_ns`.
    """
    holes = holes.with_row_index("hole")
    parts = []
    for (process, device, thread), rows in late.partition_by(
        "process", "device", "thread", as_dict=True, maintain_order=True
    ).items():
        mine = holes.filter(pl.col("thread") == thread)
        if mine.is_empty():
            continue
        hole_set = IntervalSet(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        was_idle = intervals.union(
            rows["idle_start_ns"].to_numpy(),
            # What the thread did after it had launched the work is no reason for it to be late.
            np.minimum(rows["idle_end_ns"].to_numpy(), rows["launched_ns"].to_numpy()),
        )
        both = intervals.intersect(was_idle, hole_set)
        if window.start_ns is not None and window.end_ns is not None:
            both = intervals.clip(both, window.start_ns, window.end_ns)
        number = np.searchsorted(hole_set.start, both.start, "right") - 1
        parts.append(
            pl.DataFrame(
                {
                    "process": process,
                    "device": device,
                    "thread": thread,
                    "hole": mine["hole"].gather(number),
                    "start_ns": both.start,
                    "end_ns": both.end,
                },
                schema_overrides={
                    "process": pl.Int64,
                    "device": pl.Int64,
                    "thread": pl.Int64,
                    "hole": pl.UInt32,
                    "start_ns": pl.Int64,
                    "end_ns": pl.Int64,
                },
            )
        )
    if not parts:
        return pl.DataFrame()
    return pl.concat(parts).join(
        holes.select("hole", hole_start_ns="start_ns", hole_end_ns="end_ns"), on="hole"
    )


def _sites(trace: Trace, cut: pl.DataFrame) -> list[HoleSite]:
    if cut.is_empty():
        return []
    os_calls = trace.table(TableName.OS_CALLS)
    sites = []
    for (process, device, thread, text), rows in (
        _named(trace.ranges, cut)
        .partition_by("process", "device", "thread", "place", as_dict=True, maintain_order=True)
        .items()
    ):
        distinct = rows.unique("hole", maintain_order=True)
        lasted = distinct["hole_end_ns"] - distinct["hole_start_ns"]
        sites.append(
            HoleSite(
                process=process,
                thread=thread,
                device=device,
                range_text=text,
                inside=_longest_in(rows),
                count=distinct.height,
                idle=intervals.union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()),
                longest_ns=int(lasted.max()),
                host_ns=int(lasted.sum()),
                os_calls=_os_calls(os_calls, thread, distinct),
                first_ns=int(distinct["hole_start_ns"].min()),  # type: ignore[arg-type]
                last_ns=int(distinct["hole_end_ns"].max()),  # type: ignore[arg-type]
            )
        )
    return sorted(sites, key=lambda one: (-one.idle.length_ns, one.thread, one.range_text or ""))


def _named(ranges: pl.DataFrame, cut: pl.DataFrame) -> pl.DataFrame:
    """Add `place` and `range_text`: the innermost range of a known level, and of any, if any.

    A range that only names an operation would make a finding of every operation.
    """
    middle = cut.select("thread", time_ns=(pl.col("start_ns") + pl.col("end_ns")) // 2)
    open_ranges = stacked(ranges)
    levelled = open_ranges.filter(pl.col("level").cast(pl.String).is_in(LEVELS).fill_null(False))
    texts = ranges.select("text", "facts")
    return cut.with_columns(
        names_of(texts.select(pl.all().gather(innermost(levelled, middle)))).alias("place"),
        names_of(texts.select(pl.all().gather(innermost(open_ranges, middle)))).alias("range_text"),
    )


def _longest_in(rows: pl.DataFrame) -> tuple[tuple[str, int], ...]:
    """Give the ranges in which most of the idle time was spent, with that time."""
    by_name = (
        rows.drop_nulls("range_text")
        .group_by("range_text")
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
        .sort(["ns", "range_text"], descending=[True, False])
    )
    return tuple(by_name.head(_CAUSES_SHOWN).rows())


def _os_calls(os_calls: pl.DataFrame, thread: int, holes: pl.DataFrame) -> tuple[str, ...] | None:
    """Name the calls of the operating system in which the thread spent most of the holes."""
    if os_calls.is_empty():
        return None
    mine = os_calls.filter(pl.col("thread") == thread)
    times = intervals.union(holes["hole_start_ns"].to_numpy(), holes["hole_end_ns"].to_numpy())
    inside = intervals.length_within(times, mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
    by_name = (
        mine.select(pl.col("name").cast(pl.String), ns=pl.Series(inside))
        .group_by("name")
        .agg(pl.col("ns").sum())
        .filter(pl.col("ns") > 0)
        .sort(["ns", "name"], descending=[True, False])
    )
    # What took less than half of the holes together is not what they were.
    if 2 * by_name["ns"].sum() < times.length_ns:
        return ()
    return tuple(by_name["name"].head(_CAUSES_SHOWN).drop_nulls())
