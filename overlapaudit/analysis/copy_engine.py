"""Copies that queue behind copies of another stream, on the one engine of their direction (OA202).

A GPU has a copy engine for each direction (one for both on small ones). Copies of one direction run
one after the other, whatever their streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.lanes import DeviceActivity, has_time
from overlapaudit.analysis.ready_times import with_ready
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.kinds import Direction, Lane
from overlapaudit.model.trace import Trace

# A copy follows on another if it starts no later than this after it. Between two copies on one
# engine 1 to 2 µs pass.
_FOLLOWS_NS = 5_000
_SHORTEST_QUEUE_NS = 20_000
_ENGINES = (Direction.H2D, Direction.D2H)


@dataclass(frozen=True, slots=True)
class Queued:
    """Copies of one direction that waited for their engine.

    Attributes:
        direction: which way they go.
        stream: the stream that waited.
        behind: the streams whose copies ran meanwhile.
        count: copies that waited.
        queued_ns: how long they waited, each counted for itself.
        longest_ns: the longest wait.
        cost: when one of them waited and no kernel ran.
        first_ns: when the first wait began.
        last_ns: when the last one's copy started.
    """

    direction: Direction
    stream: int
    behind: tuple[int, ...]
    count: int
    queued_ns: int
    longest_ns: int
    cost: IntervalSet
    first_ns: int
    last_ns: int


def has_followers(trace: Trace, activity: DeviceActivity) -> pl.DataFrame:
    """Give the streams with a copy that started just when one of another stream had ended.

    Returns:
        `process`, `context`, `stream`: those streams and the ones they followed, none if there are
        no such copies.
    """
    keys = ["process", "context", "stream"]
    copies = trace.operations.select(*keys, "device", "lane", "direction", "start_ns", "end_ns")
    copies = copies.filter(
        (pl.col("lane") == Lane.COPY.value)
        & (pl.col("process") == activity.process)
        & (pl.col("device") == activity.device)
        & has_time()
    )
    if copies["stream"].n_unique() < 2:
        return copies.select(keys).clear()
    found = []
    for direction in _ENGINES:
        mine = copies.filter(pl.col("direction") == direction.value).sort("start_ns")
        gap = pl.col("start_ns") - pl.col("end_ns").shift(1)
        follows = (
            (pl.col("stream") != pl.col("stream").shift(1)) & (gap >= 0) & (gap <= _FOLLOWS_NS)
        ).fill_null(False)
        found.append(mine.filter(follows | follows.shift(-1).fill_null(False)).select(keys))
    return pl.concat(found).unique()


def queued_copies(
    activity: DeviceActivity, launched: pl.DataFrame, events: pl.DataFrame
) -> list[Queued]:
    """Find the copies of a device that were ready at least 20 µs before their engine was free.

    Args:
        activity: the device.
        launched: from `launched_operations`.
        events: from `event_times`.
    """
    found = []
    copies = launched.filter(
        (pl.col("process") == activity.process)
        & (pl.col("device") == activity.device)
        & (pl.col("lane") == Lane.COPY.value)
    )
    for direction in _ENGINES:
        found += _of_engine(activity, direction, copies, launched, events)
    return sorted(found, key=lambda one: (-one.cost.length_ns, one.direction, one.stream))


def _of_engine(
    activity: DeviceActivity,
    direction: Direction,
    copies: pl.DataFrame,
    launched: pl.DataFrame,
    events: pl.DataFrame,
) -> list[Queued]:
    mine = copies.filter(pl.col("direction") == direction.value).sort("start_ns", "row")
    if mine["stream"].n_unique() < 2:
        return []
    follows = mine.with_columns(
        ahead_ns=pl.col("end_ns").shift(1),
        ahead_stream=pl.col("stream").shift(1),
    ).filter(
        (pl.col("ahead_stream") != pl.col("stream"))
        & (pl.col("start_ns") >= pl.col("ahead_ns"))
        & (pl.col("start_ns") - pl.col("ahead_ns") <= _FOLLOWS_NS)
        & (pl.col("ahead_ns") - pl.col("returned_ns") >= _SHORTEST_QUEUE_NS)
    )
    if follows.is_empty():
        return []
    waited = (
        with_ready(follows, launched, events)
        .drop_nulls("ready_ns")
        .filter(pl.col("ahead_ns") - pl.col("ready_ns") >= _SHORTEST_QUEUE_NS)
    )
    sites = []
    for (stream,), rows in waited.partition_by("stream", as_dict=True, maintain_order=True).items():
        ready, ahead = rows["ready_ns"].to_numpy(), rows["ahead_ns"].to_numpy()
        # Only time in which the engine was busy with the others was spent in its queue.
        others = mine.filter(pl.col("stream") != stream)
        busy = intervals.union(others["start_ns"].to_numpy(), others["end_ns"].to_numpy())
        in_queue = intervals.intersect(intervals.union(ready, ahead), busy)
        cost = intervals.subtract(in_queue, activity.lanes[Lane.COMPUTE])
        cost = intervals.clip(cost, activity.start_ns, activity.end_ns)
        waits = intervals.length_within(busy, ready, ahead)
        counts = waits >= _SHORTEST_QUEUE_NS
        if not counts.any():
            continue
        sites.append(
            Queued(
                direction=direction,
                stream=int(stream),
                behind=tuple(rows["ahead_stream"].unique().sort().to_list()),
                count=int(counts.sum()),
                queued_ns=int(waits[counts].sum()),
                longest_ns=int(waits.max()),
                cost=cost,
                first_ns=int(ready.min()),
                last_ns=int(np.max(rows["start_ns"].to_numpy())),
            )
        )
    return sites
