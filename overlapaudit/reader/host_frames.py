"""Build the tables of what the host did: API calls, waits, event records, overheads."""

from __future__ import annotations

import polars as pl

from overlapaudit.model.kinds import ApiKind, WaitKind
from overlapaudit.model.tables import (
    API_CALLS,
    EVENT_RECORDS,
    OS_CALLS,
    OVERHEADS,
    PROFILER_OVERHEADS,
    WAITS,
    conform,
    enum_of,
)
from overlapaudit.reader import api_names
from overlapaudit.reader.launch_join import api_rows
from overlapaudit.reader.names import StringTable, lookup, named
from overlapaudit.reader.operation_frames import applicable

# eventClass of the rows that --cudabacktrace adds: a second row for a call that is there already.
_BACKTRACE_CLASS = 67
_THREAD_BITS = 0xFFFFFF

_WAIT_KINDS = {
    ApiKind.STREAM_WAIT: WaitKind.STREAM_WAIT,
    ApiKind.EVENT_SYNC: WaitKind.EVENT_SYNC,
    ApiKind.STREAM_SYNC: WaitKind.STREAM_SYNC,
    ApiKind.DEVICE_SYNC: WaitKind.DEVICE_SYNC,
    ApiKind.QUERY: WaitKind.QUERY,
}


def process_of(thread: str) -> pl.Expr:
    """Give the globalPid of a globalTid column."""
    return pl.col(thread) - (pl.col(thread) & _THREAD_BITS)


def api_calls(source: StringTable, raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the runtime table (which holds driver calls too)."""
    raw = raw.filter(pl.col("eventClass").is_null() | (pl.col("eventClass") != _BACKTRACE_CLASS))
    strings = lookup(source, raw["nameId"], placeholder="api")
    described = strings.select(pl.col("id").alias("nameId")).hstack(
        api_names.describe(strings["value"])
    )
    names = raw.select("nameId").join(described, on="nameId", how="left", maintain_order="left")
    return conform(
        raw.select(
            names["kind"].fill_null(ApiKind.OTHER.value),
            names["name"],
            process_of("globalTid").alias("process"),
            thread="globalTid",
            start_ns=pl.col("start") - offset_ns,
            end_ns=pl.col("end") - offset_ns,
            correlation="correlationId",
            returned="returnValue",
            per_thread_stream=names["per_thread_stream"].fill_null(False),
        ),
        API_CALLS,
    )


def waits(raw: pl.DataFrame, calls: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the synchronisation table.

    The kind comes from the API call's name. `syncType` does not serve: the same call has had
    different numbers in different releases.
    """
    frame = raw.select(
        process="globalPid",
        device="deviceId",
        context="contextId",
        stream=applicable("streamId"),
        start_ns=pl.col("start") - offset_ns,
        end_ns=pl.col("end") - offset_ns,
        correlation="correlationId",
        event=applicable("eventId"),
        event_sync=_record_id(),
    )
    frame = frame.with_columns(api_rows(frame, calls))
    return conform(frame.with_columns(_wait_kind(frame, calls)), WAITS)


def event_records(raw: pl.DataFrame, calls: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the event table: one a record, not one an event object."""
    frame = raw.select(
        process="globalPid",
        device="deviceId",
        context="contextId",
        stream=applicable("streamId"),
        correlation="correlationId",
        event=applicable("eventId"),
        event_sync=_record_id(),
        completed_ns=pl.when(pl.col("timestamp") != 0).then(pl.col("timestamp") - offset_ns),
    )
    return conform(frame.with_columns(api_rows(frame, calls)), EVENT_RECORDS)


def overheads(source: StringTable, raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the application's overheads (queue full, lazy loading, JIT)."""
    return conform(
        named(source, raw, "nameId", placeholder="overhead").select(
            "name",
            start_ns=pl.col("start") - offset_ns,
            end_ns=pl.col("end") - offset_ns,
            thread="globalTid",
            correlation="correlationId",
            type="overheadType",
        ),
        OVERHEADS,
    )


def profiler_overheads(source: StringTable, raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the profiler's own cost."""
    return conform(
        named(source, raw, "nameId", placeholder="overhead").select(
            "name",
            start_ns=pl.col("start") - offset_ns,
            end_ns=pl.col("end") - offset_ns,
            thread="globalTid",
        ),
        PROFILER_OVERHEADS,
    )


def os_calls(source: StringTable, raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of calls of the operating system."""
    return conform(
        named(source, raw, "nameId", placeholder="os").select(
            "name",
            start_ns=pl.col("start") - offset_ns,
            end_ns=pl.col("end") - offset_ns,
            thread="globalTid",
        ),
        OS_CALLS,
    )


def _record_id() -> pl.Expr:
    return pl.when(pl.col("eventSyncId") != 0).then(applicable("eventSyncId"))


def _wait_kind(frame: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    dtype = enum_of(WaitKind)
    call_kind = calls["kind"].gather(frame["api_row"])
    by_name = call_kind.replace_strict(
        [kind.value for kind in _WAIT_KINDS],
        pl.Series([kind.value for kind in _WAIT_KINDS.values()], dtype=dtype),
        default=None,
        return_dtype=dtype,
    )
    has_stream, has_event = pl.col("stream").is_not_null(), pl.col("event").is_not_null()
    # Without the API row an event alone may be a wait of the host or a mere query.
    by_fields = (
        pl.when(has_stream & has_event)
        .then(pl.lit(WaitKind.STREAM_WAIT.value, dtype=dtype))
        .when(has_stream)
        .then(pl.lit(WaitKind.STREAM_SYNC.value, dtype=dtype))
        .when(has_event)
        .then(pl.lit(WaitKind.UNKNOWN.value, dtype=dtype))
        .otherwise(pl.lit(WaitKind.DEVICE_SYNC.value, dtype=dtype))
    )
    return frame.select(pl.coalesce(by_name.alias("by_name"), by_fields).alias("kind")).to_series()
