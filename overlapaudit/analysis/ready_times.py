"""When an operation could have started: launched, its stream free, the events there."""

from __future__ import annotations

import polars as pl

from overlapaudit.analysis.lanes import has_time
from overlapaudit.model.kinds import WaitKind
from overlapaudit.model.trace import Trace

_STREAM = ["process", "context", "stream"]


def launched_operations(trace: Trace, streams: pl.DataFrame) -> pl.DataFrame:
    """Give the timed operations of known launch of some streams, in launch order.

    Nodes of graphs are left out: inside a replay their order is not that of any stream.

    Args:
        trace: where to look.
        streams: `process`, `context`, `stream`.

    Returns:
        `row` (of OPERATIONS), `kind`, `process`, `device`, `context`, `stream`, `lane`,
        `direction`, `start_ns`, `end_ns`, `call`, `launched_ns`, `returned_ns` (when the launching
        call had returned), `before_ns` (when all work before it in its stream had ended).
    """
    operations, calls = trace.operations, trace.api_calls
    rows = operations.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
        "kind", "process", "device", "context", "stream", "lane", "direction", "start_ns",
        "end_ns", "graph_node", call="api_row",
    )  # fmt: skip
    rows = rows.filter(
        has_time() & pl.col("call").is_not_null() & pl.col("graph_node").is_null()
    ).drop("graph_node")
    rows = rows.join(streams, on=_STREAM, how="semi", maintain_order="left")
    return (
        rows.with_columns(
            launched_ns=calls["start_ns"].gather(rows["call"]),
            returned_ns=calls["end_ns"].gather(rows["call"]),
        )
        .sort("launched_ns", "start_ns", "row")
        .with_columns(before_ns=pl.col("end_ns").cum_max().shift(1).over(_STREAM))
    )


def event_times(trace: Trace, links: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """Give for each wait of a stream when what it waits for had ended.

    Args:
        trace: where to look.
        links: from `resolve_waits`.
        launched: from `launched_operations`.

    Returns:
        `process`, `context`, `stream` (the one that waits), `waited_ns` (when the wait was issued)
        and `event_ns` (null where it is not known what it waits for).
    """
    waits = trace.waits.select(*_STREAM, wait_row=pl.int_range(pl.len(), dtype=pl.Int64))
    calls, records = trace.api_calls, trace.event_records
    known = links.filter(
        (pl.col("kind") == WaitKind.STREAM_WAIT.value) & pl.col("wait_row").is_not_null()
    )
    rows = known.select("wait_row", "wait_call", "record_row", "record_call").join(
        waits, on="wait_row"
    )
    rows = rows.with_columns(
        waited_ns=calls["start_ns"].gather(rows["wait_call"]),
        recorded_ns=calls["start_ns"].gather(rows["record_call"]),
        of_context=records["context"].gather(rows["record_row"]),
        of_stream=records["stream"].gather(rows["record_row"]),
    ).drop_nulls("waited_ns")
    reached = launched.select(
        "process", "launched_ns",
        of_context="context", of_stream="stream",
        event_ns=pl.col("end_ns").cum_max().over(_STREAM),
    )  # fmt: skip
    found = (
        rows.drop_nulls(["recorded_ns", "of_stream"])
        .sort("recorded_ns")
        .join_asof(
            reached,
            left_on="recorded_ns",
            right_on="launched_ns",
            by=["process", "of_context", "of_stream"],
            allow_exact_matches=False,
            check_sortedness=False,
        )
        # An event recorded before any work of its stream is there already.
        .select("wait_row", event_ns=pl.col("event_ns").fill_null(-(1 << 62)))
    )
    return rows.join(found, on="wait_row", how="left").select(*_STREAM, "waited_ns", "event_ns")


def with_ready(rows: pl.DataFrame, launched: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Add `ready_ns`: when each operation could have started as far as is known (else null).

    That is when it was launched, the work before it in its stream had ended, and the events had
    come that its stream was told to wait for since. Null where one of those is not known.

    Args:
        rows: some of `launched`.
        launched: from `launched_operations`.
        events: from `event_times`.
    """
    previous = launched.select(
        "row", pl.col("launched_ns").shift(1).over(_STREAM).alias("after_ns")
    )
    asked = rows.join(previous, on="row", how="left", maintain_order="left")
    if events.is_empty():
        event = pl.DataFrame(schema={"row": pl.Int64, "event_ns": pl.Int64, "unknown": pl.Boolean})
    else:
        waits = asked.select("row", *_STREAM, "launched_ns", "after_ns").join(events, on=_STREAM)
        event = (
            waits.filter(
                (pl.col("waited_ns") < pl.col("launched_ns"))
                & (pl.col("waited_ns") > pl.col("after_ns")).fill_null(True)
            )
            .group_by("row")
            .agg(pl.col("event_ns").max(), pl.col("event_ns").is_null().any().alias("unknown"))
        )
    joined = asked.join(event, on="row", how="left", maintain_order="left")
    return joined.with_columns(
        ready_ns=pl.when(~pl.col("unknown").fill_null(False)).then(
            pl.max_horizontal("returned_ns", "before_ns", "event_ns")
        )
    ).drop("after_ns", "event_ns", "unknown")
