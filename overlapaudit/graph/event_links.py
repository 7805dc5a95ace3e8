"""Which event record a wait waits for: the resolution ladder, best method first.

An nsys export names the event object that a wait waits on, not the record, and often not even
that. Each method is tried on what the ones before it left over:

1. `record_id`: the wait carries the id of the record (nsys 2025.3 and later).
2. `event_order`: the latest record of the same event object before the wait, in host order.
3. `counter`: record ids count the record calls of a process; the id tells which call it was.
4. `same_thread`: the last record call on the same thread. A guess.

Host order is the start of API calls across all threads of a process.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import polars as pl

from overlapaudit.model.kinds import ApiKind, WaitKind
from overlapaudit.model.tables import enum_of
from overlapaudit.model.trace import Trace

# The counter rule holds for a process if this share of its waits agrees on one constant.
_COUNTER_AGREEMENT = 0.9


class Method(str, Enum):
    """How the record of a wait was found."""

    RECORD_ID = "record_id"
    EVENT_ORDER = "event_order"
    EVENT_ORDER_RACING = "event_order_racing"  # the two calls overlap in time
    COUNTER = "counter"
    SAME_THREAD = "same_thread"

    @property
    def is_exact(self) -> bool:
        """Tell proof from inference."""
        return self in (Method.RECORD_ID, Method.EVENT_ORDER)


_METHOD = pl.Enum([method.value for method in Method])
_WAITS_ON_EVENT = [WaitKind.STREAM_WAIT.value, WaitKind.EVENT_SYNC.value]

# One row per wait: `record_row` is a row of EVENT_RECORDS, `record_call` a row of API_CALLS;
# either may be known without the other. `method` is null where the wait stays unresolved.
LINKS = {
    "process": pl.Int64(),
    "kind": enum_of(WaitKind),
    "wait_row": pl.Int64(),
    "wait_call": pl.Int64(),
    "record_row": pl.Int64(),
    "record_call": pl.Int64(),
    "method": _METHOD,
}


def resolve_waits(trace: Trace) -> pl.DataFrame:
    """Give one row for each wait on an event (stream waits and host waits), columns LINKS."""
    waits = _waits_on_events(trace)
    records, calls = _records(trace), _record_calls(trace)
    found: list[pl.DataFrame] = []
    left = waits
    for method in (_by_record_id, _by_event_order, _by_counter, _by_same_thread):
        if left.is_empty():
            break
        links = method(left, records, calls)
        found.append(links)
        left = left.join(links, on="wait", how="anti")
    unresolved = left.select(
        "wait",
        record_row=pl.lit(None, pl.Int64),
        record_call=pl.lit(None, pl.Int64),
        method=pl.lit(None, _METHOD),
    )
    links = pl.concat([*found, unresolved])
    return waits.join(links, on="wait", how="left", maintain_order="left").select(
        [pl.col(name).cast(dtype) for name, dtype in LINKS.items()]
    )


def _waits_on_events(trace: Trace) -> pl.DataFrame:
    """Number the waits: rows of the wait table, then calls that have no such row."""
    calls = trace.api_calls
    rows = trace.waits.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("wait_row")
    ).filter(pl.col("kind").is_in(_WAITS_ON_EVENT))
    rows = rows.select(
        "kind", "process", "event", "event_sync", "wait_row",
        calls["thread"].gather(rows["api_row"]).alias("thread"),
        pl.col("api_row").alias("wait_call"),
        pl.coalesce(calls["start_ns"].gather(rows["api_row"]), "start_ns").alias("at"),
    )  # fmt: skip
    has_row = np.zeros(calls.height, dtype=np.bool_)
    has_row[rows["wait_call"].drop_nulls().to_numpy()] = True
    bare = (
        calls.select(
            "kind", "process", "thread", "start_ns", "returned",
            pl.int_range(pl.len(), dtype=pl.Int64).alias("call"),
        )
        .filter(
            pl.col("kind").is_in(_WAITS_ON_EVENT)
            & (pl.col("returned").fill_null(0) == 0)
            & ~pl.Series(has_row)
        )
        .select(
            pl.col("kind").cast(pl.String).cast(enum_of(WaitKind)),
            "process",
            event=pl.lit(None, pl.Int64),
            event_sync=pl.lit(None, pl.Int64),
            wait_row=pl.lit(None, pl.Int64),
            thread="thread",
            wait_call="call",
            at="start_ns",
        )
    )  # fmt: skip
    return pl.concat([rows, bare]).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("wait")
    )


def _records(trace: Trace) -> pl.DataFrame:
    """Give the rows of the record table, with when their calls began and ended."""
    records, calls = trace.event_records, trace.api_calls
    return records.select(
        "process", "event", "event_sync",
        pl.int_range(pl.len(), dtype=pl.Int64).alias("record_row"),
        pl.col("api_row").alias("record_call"),
        calls["start_ns"].gather(records["api_row"]).alias("at"),
        calls["end_ns"].gather(records["api_row"]).alias("done"),
    )  # fmt: skip


def _record_calls(trace: Trace) -> pl.DataFrame:
    """Give the calls that recorded an event."""
    return (
        trace.api_calls.select(
            "kind", "process", "thread", "returned",
            pl.int_range(pl.len(), dtype=pl.Int64).alias("record_call"),
            pl.col("start_ns").alias("at"),
        )
        .filter(
            (pl.col("kind") == ApiKind.EVENT_RECORD.value)
            & (pl.col("returned").fill_null(0) == 0)
        )
        .drop("kind", "returned")
    )  # fmt: skip


def _link(method: Method) -> list[pl.Expr | str]:
    return ["wait", "record_row", "record_call", pl.lit(method.value, _METHOD).alias("method")]


def _by_record_id(waits: pl.DataFrame, records: pl.DataFrame, _: pl.DataFrame) -> pl.DataFrame:
    by_id = records.drop_nulls("event_sync").unique(
        ["process", "event_sync"], keep="first", maintain_order=True
    )
    found = waits.join(by_id, on=["process", "event_sync"], suffix="_recorded")
    # An id that names a later record, or one of another event, is not this record's.
    fits = (pl.col("at_recorded") <= pl.col("at")).fill_null(True) & (
        pl.col("event_recorded") == pl.col("event")
    ).fill_null(True)
    return found.filter(fits).select(_link(Method.RECORD_ID))


def _by_event_order(waits: pl.DataFrame, records: pl.DataFrame, _: pl.DataFrame) -> pl.DataFrame:
    """Take the last record before the wait; exact where its call had returned by then."""
    joined = _latest_before(
        waits.drop_nulls(["event", "at"]), records.drop_nulls(["event", "at"]), ["process", "event"]
    )
    return joined.select(
        "wait",
        "record_row",
        "record_call",
        pl.when(pl.col("done") <= pl.col("at"))
        .then(pl.lit(Method.EVENT_ORDER.value, _METHOD))
        .otherwise(pl.lit(Method.EVENT_ORDER_RACING.value, _METHOD))
        .alias("method"),
    )


def _by_counter(waits: pl.DataFrame, records: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Match record ids to record calls by a constant offset for each process."""
    numbered = calls.sort("at", "record_call").with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).over("process").alias("number")
    )
    candidates = waits.drop_nulls(["event_sync", "at"])
    last = _latest_before(candidates, numbered, ["process"])
    offsets = last.with_columns((pl.col("event_sync") - pl.col("number")).alias("offset"))
    agreed = (
        offsets.group_by("process")
        .agg(
            # The smallest of several modes, so that the answer does not depend on the row order.
            pl.col("offset").mode().min(),
            (pl.col("offset") == pl.col("offset").mode().min()).mean().alias("share"),
        )
        .filter(pl.col("share") >= _COUNTER_AGREEMENT)
    )
    return (
        candidates.join(agreed, on="process")
        .with_columns((pl.col("event_sync") - pl.col("offset")).alias("number"))
        .join(numbered.select("process", "number", "record_call"), on=["process", "number"])
        .pipe(_of_the_same_event, records)
        .select(_link(Method.COUNTER))
    )


def _by_same_thread(
    waits: pl.DataFrame, records: pl.DataFrame, calls: pl.DataFrame
) -> pl.DataFrame:
    joined = _latest_before(waits.drop_nulls(["thread", "at"]), calls, ["process", "thread"])
    return joined.pipe(_of_the_same_event, records).select(_link(Method.SAME_THREAD))


def _of_the_same_event(links: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Drop links to a call that is known to have recorded another event than was waited for."""
    known = records.select("record_call", "record_row", recorded="event").drop_nulls("record_call")
    return links.join(
        known.unique("record_call", keep="first", maintain_order=True), on="record_call", how="left"
    ).filter((pl.col("event") == pl.col("recorded")).fill_null(True))


def _latest_before(waits: pl.DataFrame, records: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Join each wait to the last record before it within `by`; waits without one drop out."""
    kept = [name for name in records.columns if name not in waits.columns or name in (*by, "at")]
    return (
        waits.sort("at")
        .join_asof(
            # Of records at one instant the later row, whatever order the sort leaves ties in.
            records.select(kept).sort("at", "record_call"),
            on="at",
            by=by,
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .drop_nulls("record_call")
    )
