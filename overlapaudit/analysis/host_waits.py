"""Calls in which the host waited for the GPU, and until which operation.

A wait is priced by the GPU, never by the host: from the end of the last operation that the call
waited for to the first work that the device does then, launched by any thread. Where other work
ran at that moment the price is 0. `idle_time` says whose the idle time is.
"""

from __future__ import annotations

import polars as pl

from overlapaudit.analysis.lanes import has_time
from overlapaudit.model.kinds import ApiKind, MemoryKind, OpKind, WaitKind
from overlapaudit.model.trace import Trace

# Waits that are shorter cost nothing: what is idle after them is the host's own doing.
SHORTEST_WAIT_NS = 20_000
# How far the end of an operation may seem to lie behind the return of the call that waited for
# it. GPU times are converted to the host's clock; on one machine with two GPUs they were found up
# to 7 µs apart. Beyond this the call did not wait for that operation.
_CLOCKS_NS = 20_000
# The same for a copy, where this decides whether its call waited at all.
_CLOCKS_OF_COPY_NS = 2_000

# A call that lasted for all but one part in so many of its copy lasted as long as the copy.
_AS_LONG = 5

# One row for each call that waited. `device` and what follows are null where no operation is known
# that it could have waited for.
HOST_WAITS: dict[str, pl.DataType] = {
    "call": pl.Int64(),  # row of API_CALLS
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "wait_ns": pl.Int64(),  # of the host
    "context": pl.Int64(),  # of the stream that it waited for, where it was one stream
    "stream": pl.Int64(),
    "device": pl.Int64(),
    "until_ns": pl.Int64(),  # end of the last operation that it waited for
    "from_ns": pl.Int64(),  # from when on idle time of the device counts; null: it does not
}


def host_waits(trace: Trace, links: pl.DataFrame) -> pl.DataFrame:
    """Give the calls in which the host waited, and until when.

    Args:
        trace: where to look.
        links: the records that waits on events wait for, from `resolve_waits`.
    """
    work = _launched_work(trace)
    ends = pl.concat(
        [
            _stream_and_event_syncs(trace, work, links),
            _device_syncs(trace, work),
            _blocking_copies(trace),
        ],
        how="diagonal",
    )
    calls = trace.api_calls.select("process", "thread", "start_ns", "end_ns")
    found = pl.concat(
        [ends.select("call"), calls[ends["call"]], ends.drop("call")], how="horizontal"
    )
    found = found.with_columns(wait_ns=pl.col("end_ns") - pl.col("start_ns")).filter(
        pl.col("wait_ns") >= 0
    )
    return found.with_columns(_from(found)).select(
        [pl.col(name).cast(dtype) for name, dtype in HOST_WAITS.items()]
    )


def _launched_work(trace: Trace) -> pl.DataFrame:
    """Give the timed operations with when they were launched (else when they started)."""
    operations = trace.operations
    launched = trace.api_calls["start_ns"].gather(operations["api_row"])
    return operations.select(
        "process", "device", "context", "stream", "end_ns", "start_ns",
        pl.coalesce(launched, "start_ns").alias("launched_ns"),
    ).filter(has_time()).drop("start_ns").sort("launched_ns")  # fmt: skip


def _last_end(waits: pl.DataFrame, work: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Join each wait to the latest end of the work launched before `before_ns` within `by`."""
    nothing = pl.DataFrame(
        schema={name: HOST_WAITS[name] for name in ("call", "device", "until_ns")}
    )
    if waits.is_empty():
        return nothing
    asked = waits.drop_nulls([*by, "before_ns"]).sort("before_ns")
    parts = [nothing]
    for device in work["device"].unique().drop_nulls().sort():
        # A stream, a context or a process: what was launched in it keeps the order of the work.
        reached = work.filter(pl.col("device") == device).select(
            *by,
            "device",
            "launched_ns",
            pl.col("end_ns").cum_max().over(by).alias("until_ns"),
        )
        parts.append(
            asked.join_asof(
                reached,
                left_on="before_ns",
                right_on="launched_ns",
                by=by,
                allow_exact_matches=False,
                check_sortedness=False,
            )
            .drop_nulls("until_ns")
            .select("call", "device", "until_ns")
        )
    return pl.concat(parts)


def _with_calls(trace: Trace, kind: WaitKind) -> pl.DataFrame:
    """Give the rows of the wait table of a kind, with their calls."""
    rows = trace.waits.filter(pl.col("kind") == kind.value).drop_nulls("api_row")
    return rows.select(
        "process", "context", "stream", "device",
        pl.col("api_row").alias("call"),
        trace.api_calls["start_ns"].gather(rows["api_row"]).alias("before_ns"),
    ).unique("call", keep="first", maintain_order=True)  # fmt: skip


def _device_syncs(trace: Trace, work: pl.DataFrame) -> pl.DataFrame:
    waits = _with_calls(trace, WaitKind.DEVICE_SYNC).drop("device")
    waits = waits.with_columns(stream=pl.lit(None, pl.Int64))
    return _every(waits, _last_end(waits, work, ["process", "context"]), waits)


def _stream_and_event_syncs(trace: Trace, work: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Follow waits to a stream: those on events to that of the record, where both are known."""
    streams = _with_calls(trace, WaitKind.STREAM_SYNC).drop("device")
    events = _with_calls(trace, WaitKind.EVENT_SYNC)
    waits = pl.concat([streams, _recorded(trace, links).select(streams.columns)])
    known = _last_end(waits, work, ["process", "context", "stream"])
    calls = pl.concat([streams.select("call"), events.select("call")])
    return _every(calls, known, waits)


def _recorded(trace: Trace, links: pl.DataFrame) -> pl.DataFrame:
    links = links.filter(
        (pl.col("kind") == WaitKind.EVENT_SYNC.value)
        & pl.col("record_row").is_not_null()
        & pl.col("record_call").is_not_null()
        & pl.col("wait_call").is_not_null()
    )
    records, calls = trace.event_records, trace.api_calls
    return links.select(
        "process",
        records["context"].gather(links["record_row"]).alias("context"),
        records["stream"].gather(links["record_row"]).alias("stream"),
        pl.col("wait_call").alias("call"),
        calls["start_ns"].gather(links["record_call"]).alias("before_ns"),
    )


def _every(waits: pl.DataFrame, known: pl.DataFrame, streams: pl.DataFrame) -> pl.DataFrame:
    """Keep the waits of which it is not known what they waited for."""
    return (
        waits.select("call")
        .join(streams.select("call", "context", "stream"), on="call", how="left")
        .join(known, on="call", how="left", maintain_order="left")
    )


def _blocking_copies(trace: Trace) -> pl.DataFrame:
    """Give the copies that can block and whose call returned when they had ended, or later.

    Those are the synchronous ones, and asynchronous ones of pageable memory. A call of any other
    may return late too, but it waited for nothing. A copy from pageable memory goes through a
    staging buffer: its call may return some time before the last piece has arrived, but it took
    about as long as the copy.
    """
    calls = trace.api_calls
    copies = (
        trace.operations.select(
            "kind", "device", "start_ns", "end_ns", "source", "destination", "api_row"
        )
        .filter(pl.col("kind") == OpKind.MEMCPY.value)
        .filter(pl.col("api_row").is_not_null() & has_time())
    )
    call = calls.select("kind", "name", "end_ns")[copies["api_row"]]
    pageable = MemoryKind.PAGEABLE.value
    can_block = (
        ~call["name"].cast(pl.String).str.contains("Async")
        | (copies["source"] == pageable).fill_null(False)
        | (copies["destination"] == pageable).fill_null(False)
    )
    waited = call["end_ns"] + _CLOCKS_OF_COPY_NS >= copies["end_ns"]
    beside = call["end_ns"] - copies["start_ns"]
    staged = _AS_LONG * beside >= (_AS_LONG - 1) * (copies["end_ns"] - copies["start_ns"])
    return (
        copies.filter(
            (call["kind"] == ApiKind.COPY.value) & can_block & (waited | (staged & (beside > 0)))
        )
        .group_by(pl.col("api_row").alias("call"), "device")
        .agg(pl.col("end_ns").max().alias("until_ns"))
        .sort("call", "device")
    )


def _from(waits: pl.DataFrame) -> pl.Series:
    """Give the moment from which the idle time of the device counts for a wait (null: it does not).

    A short wait costs nothing, nor does one for what had ended before, or ended after it.
    """
    waited = (
        (pl.col("wait_ns") >= SHORTEST_WAIT_NS)
        & (pl.col("until_ns") <= pl.col("end_ns") + _CLOCKS_NS)
        & (pl.col("until_ns") > pl.col("start_ns"))
    )
    return waits.select(pl.when(waited).then("until_ns").alias("from_ns")).to_series()
