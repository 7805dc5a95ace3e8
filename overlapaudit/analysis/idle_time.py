"""When a device had nothing to do, and to which blocking call each idle ns belongs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.lanes import DeviceActivity
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.kinds import Lane, RangeKind
from overlapaudit.model.trace import Trace
from overlapaudit.spans.nesting import NEVER_NS

# By (process, device).
OfDevice: TypeAlias = Mapping[tuple[int, int], IntervalSet]

_OWN_ENGINE, _REQUEST = "overlapaudit", "request"


def idle_times(
    trace: Trace, activities: Sequence[DeviceActivity], spinning: OfDevice
) -> dict[tuple[int, int], IntervalSet]:
    """Give for each device when it was idle, between its first and its last work.

    Time in which only collectives spin for their peers counts as idle. Time without any request to
    serve does not, where requests are marked.

    Args:
        trace: where to look.
        activities: its devices, in the whole trace.
        spinning: when collectives of a device waited for their peers.
    """
    requests = _requests(trace)
    found: dict[tuple[int, int], IntervalSet] = {}
    for activity in activities:
        key = activity.process, activity.device
        busy = activity.busy
        if key in spinning:
            busy = intervals.subtract(busy, spins_alone(activity, spinning[key]))
        idle = intervals.complement(busy, activity.start_ns, activity.end_ns)
        found[key] = idle if requests is None else intervals.intersect(idle, requests)
    return found


def spins_alone(activity: DeviceActivity, spins: IntervalSet) -> IntervalSet:
    """Give when a device did nothing but wait for its peers: no other lane ran meanwhile."""
    others = [covered for lane, covered in activity.lanes.items() if lane is not Lane.COMM]
    return intervals.subtract(
        intervals.clip(spins, activity.start_ns, activity.end_ns), intervals.unite(others)
    )


def _requests(trace: Trace) -> IntervalSet | None:
    """Give when any request was there; None where requests are not marked."""
    ranges = trace.ranges.select("kind", "level", "engine", "start_ns", "end_ns").filter(
        (pl.col("level") == _REQUEST)
        & (pl.col("engine") == _OWN_ENGINE)
        & (pl.col("kind") != RangeKind.MARK.value)
    )
    if ranges.is_empty():
        return None
    return intervals.union(
        ranges["start_ns"].to_numpy(), ranges["end_ns"].fill_null(NEVER_NS).to_numpy()
    )


def own_idle_time(blocked: pl.DataFrame, idle: OfDevice, trace: Trace) -> pl.DataFrame:
    """Add `idle_start_ns` and `idle_end_ns`: the idle time that each call owns (null: none).

    A call owns the device's idle time from `from_ns` until the device works again. Where several
    reach for the same time, it belongs to the one that began to last; of those that began at one
    moment, to the first call. Idle time that ends with work that had been launched before it began
    belongs to nobody: there was work, it only had not started.

    Args:
        blocked: `process`, `device`, `start_ns`, `call`, `from_ns` (null: owns none), `to_ns`
            (null: until the device works again).
        idle: from `idle_times`.
        trace: where both are from.
    """
    rows = blocked.with_row_index("row")
    claims = [_claims(rows, key, gaps) for key, gaps in idle.items() if len(gaps)]
    if not claims:
        return blocked.with_columns(idle_start_ns=_NO_TIME, idle_end_ns=_NO_TIME)
    claimed = pl.concat(claims)
    claimed = _without_queued(claimed, trace)
    return (
        rows.join(
            claimed.select("row", "idle_start_ns", "idle_end_ns"),
            on="row",
            how="left",
            maintain_order="left",
        )
        .drop("row")
    )  # fmt: skip


_NO_TIME = pl.lit(None, pl.Int64)


def _claims(rows: pl.DataFrame, key: tuple[int, int], gaps: IntervalSet) -> pl.DataFrame:
    process, device = key
    mine = (
        rows.filter(
            (pl.col("process") == process)
            & (pl.col("device") == device)
            & pl.col("from_ns").is_not_null()
        )
        .sort("from_ns", "start_ns", "call")
        .unique("from_ns", keep="first", maintain_order=True)
    )
    begin = mine["from_ns"].to_numpy()
    gap = np.searchsorted(gaps.start, begin, "right") - 1
    holds = (gap >= 0) & (begin < gaps.end[np.maximum(gap, 0)])
    mine, begin, gap = mine.filter(pl.Series(holds)), begin[holds], gap[holds]
    end = gaps.end[gap]
    if len(end):
        same = gap[:-1] == gap[1:]
        end[:-1] = np.where(same, begin[1:], end[:-1])
    end = np.minimum(end, mine["to_ns"].fill_null(NEVER_NS).to_numpy())
    return mine.select(
        "row", "process", "device",
        idle_start_ns=pl.Series(begin, dtype=pl.Int64),
        idle_end_ns=pl.Series(end, dtype=pl.Int64),
        gap_start_ns=pl.Series(gaps.start[gap], dtype=pl.Int64),
        gap_end_ns=pl.Series(gaps.end[gap], dtype=pl.Int64),
    )  # fmt: skip


def _without_queued(claimed: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Drop the claims on gaps that end with work which was launched before they began."""
    work = first_work(trace, claimed["gap_end_ns"])
    return claimed.join(
        work.select("process", "device", gap_end_ns="start_ns", launched_ns="launched_ns"),
        on=["process", "device", "gap_end_ns"],
        how="left",
    ).filter((pl.col("launched_ns") >= pl.col("gap_start_ns")).fill_null(True))


def first_work(trace: Trace, starts: pl.Series) -> pl.DataFrame:
    """Give what began at these moments: of each device the operation that was launched first.

    Returns:
        `process`, `device`, `start_ns`, `launched_ns`, `call` (its API call); the last two null
        where the launch was not recorded.
    """
    operations, calls = trace.operations, trace.api_calls
    rows = operations.select("process", "device", "start_ns", call="api_row").filter(
        pl.col("start_ns").is_in(starts.unique().implode())
    )
    return (
        rows.with_columns(launched_ns=calls["start_ns"].gather(rows["call"]))
        .sort("launched_ns", "call", nulls_last=True)
        .unique(["process", "device", "start_ns"], keep="first", maintain_order=True)
    )
