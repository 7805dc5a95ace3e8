"""The legacy default stream as a barrier between streams (OA504).

Work on it starts after everything that was issued before to the blocking streams of its context,
and what is issued to those later starts after it. Streams made with the non-blocking flag take no
part. Without an event in between, nothing else orders two streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.lanes import DeviceActivity
from overlapaudit.analysis.ready_times import with_ready
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace

# A barrier binds if work starts this soon after what it holds back for. Measured gaps between
# kernels of one stream are 1 to 3 µs, across streams up to twice that.
_BINDS_WITHIN_NS = 10_000
_SHORTEST_DELAY_NS = 5_000


@dataclass(frozen=True, slots=True)
class Barrier:
    """Work that the default stream kept apart without need.

    Attributes:
        process: globalPid.
        device: the device.
        context: the context.
        default_stream: its default stream.
        streams: the streams that it held up, or that held it up.
        count: how often it bound.
        delayed_ns: how long work that was ready waited, each counted for itself.
        cost: when work waited, cut to the length of what it waited for and of itself.
        call: the launching call of the first default-stream operation that bound: row of API_CALLS.
        certain: whether the trace says that the streams are of the blocking kind.
        first_ns: when the first delay began.
        last_ns: when the last ended.
    """

    process: int
    device: int
    context: int
    default_stream: int
    streams: tuple[int, ...]
    count: int
    delayed_ns: int
    cost: IntervalSet
    call: int
    certain: bool
    first_ns: int
    last_ns: int


def streams_at_barrier(trace: Trace, activity: DeviceActivity) -> pl.DataFrame:
    """Give the streams of contexts that work on their default stream and on others it may hold up.

    Returns:
        `process`, `context`, `stream`.
    """
    keys = ["process", "context", "stream"]
    used = (
        trace.operations.select(*keys, "device")
        .filter((pl.col("process") == activity.process) & (pl.col("device") == activity.device))
        .select(keys)
        .unique()
        .drop_nulls()
    )
    streams = trace.table(TableName.STREAMS)
    known = used.join(streams, on=keys, how="left")
    takes_part = known.filter(
        pl.col("is_default").fill_null(False) | pl.col("blocking").fill_null(True)
    )
    both = takes_part.filter(
        (pl.len().over("process", "context") > 1)
        & pl.col("is_default").fill_null(False).any().over("process", "context")
    )
    return both.select(keys)


def barriers(
    trace: Trace, activity: DeviceActivity, launched: pl.DataFrame, events: pl.DataFrame
) -> list[Barrier]:
    """Find where the default stream of a device's contexts was a barrier that bound.

    Args:
        trace: where to look.
        activity: the device.
        launched: from `launched_operations`.
        events: from `event_times`.
    """
    streams = trace.table(TableName.STREAMS).filter(pl.col("process") == activity.process)
    defaults = streams.filter(pl.col("is_default").fill_null(False))
    found = []
    for context, default in defaults.select("context", "stream").unique().sort("context").rows():
        rows = launched.filter(
            (pl.col("process") == activity.process)
            & (pl.col("device") == activity.device)
            & (pl.col("context") == context)
        )
        kinds = streams.filter(pl.col("context") == context).select("stream", "blocking")
        one = _of_context(activity, int(context), int(default), rows, kinds, events)
        if one is not None:
            found.append(one)
    return found


def _of_context(
    activity: DeviceActivity,
    context: int,
    default: int,
    rows: pl.DataFrame,
    kinds: pl.DataFrame,
    events: pl.DataFrame,
) -> Barrier | None:
    on_default = rows.filter(pl.col("stream") == default)
    others = rows.filter(pl.col("stream") != default).join(
        kinds.unique("stream"), on="stream", how="left", maintain_order="left"
    )
    others = others.filter(pl.col("blocking").fill_null(True))
    if on_default.is_empty() or others.is_empty():
        return None
    others = _without_contradicted(others, on_default)
    if others.is_empty():
        return None
    held_up = pl.concat(
        [
            _held(others.drop("blocking"), on_default, rows, events, own=True),
            _held(on_default, others.drop("blocking"), rows, events, own=False),
        ]
    )
    if held_up.is_empty():
        return None
    delay = (held_up["until_ns"] - held_up["ready_ns"]).to_numpy()
    # What one of two could have done beside the other is no more than the shorter of both.
    shorter = np.minimum(
        np.minimum(delay, held_up["lasted_ns"].to_numpy()), held_up["by_lasted_ns"].to_numpy()
    )
    until = held_up["until_ns"].to_numpy()
    cost = intervals.clip(
        intervals.union(until - shorter, until), activity.start_ns, activity.end_ns
    )
    involved = held_up["other"].unique().sort()
    certain = others.filter(pl.col("stream").is_in(involved.implode()))["blocking"]
    return Barrier(
        process=activity.process,
        device=activity.device,
        context=context,
        default_stream=default,
        streams=tuple(involved.to_list()),
        count=held_up.height,
        delayed_ns=int(delay.sum()),
        cost=cost,
        call=int(held_up.sort("until_ns")["barrier_call"][0]),
        certain=bool(certain.fill_null(False).all()),
        first_ns=int(held_up["ready_ns"].min()),  # type: ignore[arg-type]
        last_ns=int(until.max()),
    )


def _without_contradicted(others: pl.DataFrame, on_default: pl.DataFrame) -> pl.DataFrame:
    """Drop the streams that ran beside the default stream: they are not of the blocking kind."""
    barrier = intervals.union(on_default["start_ns"].to_numpy(), on_default["end_ns"].to_numpy())
    beside = intervals.length_within(
        barrier, others["start_ns"].to_numpy(), others["end_ns"].to_numpy()
    )
    free = others.filter(pl.Series(beside > 0))["stream"].unique()
    return others.filter(~pl.col("stream").is_in(free.implode()))


def _held(
    rows: pl.DataFrame,
    by: pl.DataFrame,
    launched: pl.DataFrame,
    events: pl.DataFrame,
    *,
    own: bool,
) -> pl.DataFrame:
    """Give the operations of `rows` that started when work of `by`, issued before them, ended.

    Args:
        rows: what may have been held up.
        by: what may have held it up.
        launched: all operations of the context.
        events: from `event_times`.
        own: whether `rows` are the streams, and `by` is the default stream.

    Returns:
        `ready_ns`, `until_ns`, `lasted_ns`, `by_lasted_ns`, `other` (the stream that is not the
        default one), `barrier_call`.
    """
    issued = by.select(
        until_ns="end_ns",
        by_stream="stream",
        by_launched_ns="launched_ns",
        by_lasted_ns=pl.col("end_ns") - pl.col("start_ns"),
        by_call="call",
    ).sort("until_ns")
    asked = (
        rows.sort("start_ns")
        .join_asof(issued, left_on="start_ns", right_on="until_ns", check_sortedness=False)
        .filter(
            (pl.col("start_ns") - pl.col("until_ns") <= _BINDS_WITHIN_NS)
            & (pl.col("by_launched_ns") < pl.col("launched_ns"))
            & (pl.col("until_ns") - pl.col("returned_ns") >= _SHORTEST_DELAY_NS)
        )
    )
    waited = (
        with_ready(asked, launched, events)
        .drop_nulls("ready_ns")
        .filter(pl.col("until_ns") - pl.col("ready_ns") >= _SHORTEST_DELAY_NS)
    )
    return waited.select(
        "ready_ns",
        "until_ns",
        "by_lasted_ns",
        lasted_ns=pl.col("end_ns") - pl.col("start_ns"),
        other="stream" if own else "by_stream",
        barrier_call="by_call" if own else "call",
    )
