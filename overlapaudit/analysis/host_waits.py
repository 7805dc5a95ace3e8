"""Calls in which the host waited for the GPU: until which operation, and the idle time after it.

A wait is priced by the GPU, never by the host: from the end of the last operation that the call
waited for to the first work that the device does then, launched by any thread. Where other work
ran at that moment the price is 0.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.lanes import has_time
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.kinds import ApiKind, MemoryKind, OpKind, WaitKind
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import Window

# Waits that are shorter cost nothing: what is idle after them is the host's own doing.
SHORTEST_WAIT_NS = 20_000
# How far the end of an operation may seem to lie behind the return of the call that waited for
# it. GPU times are converted to the host's clock; on one machine with two GPUs they were found up
# to 7 µs apart. Beyond this the call did not wait for that operation.
_CLOCKS_NS = 20_000
# The same for a copy, where this decides whether its call waited at all.
_CLOCKS_OF_COPY_NS = 2_000

# One row for each call that waited. `device` and what follows are null where no operation is known
# that it could have waited for.
HOST_WAITS: dict[str, pl.DataType] = {
    "call": pl.Int64(),  # row of API_CALLS
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "wait_ns": pl.Int64(),  # of the host
    "device": pl.Int64(),
    "until_ns": pl.Int64(),  # end of the last operation that it waited for
    "idle_ns": pl.Int64(),  # of the device, directly after that
}


def host_waits(trace: Trace, window: Window, links: pl.DataFrame) -> pl.DataFrame:
    """Give the calls in which the host waited, with their price in a window.

    Args:
        trace: where to look.
        window: what lies outside it does not count.
        links: the records that waits on events wait for, from `resolve_waits`.
    """
    work = _launched_work(trace)
    ends = pl.concat(
        [
            _stream_syncs(trace, work),
            _event_syncs(trace, work, links),
            _device_syncs(trace, work),
            _blocking_copies(trace),
            _frees(trace, work),
        ]
    )
    calls = trace.api_calls.select("process", "thread", "start_ns", "end_ns")
    found = pl.concat(
        [ends.select("call"), calls[ends["call"]], ends.drop("call")], how="horizontal"
    )
    found = found.with_columns(wait_ns=pl.col("end_ns") - pl.col("start_ns")).filter(
        pl.col("wait_ns") >= 0
    )
    return _priced(found, _busy(trace, window), window).select(
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


def _stream_syncs(trace: Trace, work: pl.DataFrame) -> pl.DataFrame:
    waits = _with_calls(trace, WaitKind.STREAM_SYNC).drop("device")
    return _every(waits, _last_end(waits, work, ["process", "context", "stream"]))


def _device_syncs(trace: Trace, work: pl.DataFrame) -> pl.DataFrame:
    waits = _with_calls(trace, WaitKind.DEVICE_SYNC).drop("device")
    return _every(waits, _last_end(waits, work, ["process", "context"]))


def _event_syncs(trace: Trace, work: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Follow an event wait to the stream and the moment of its record, where both are known."""
    links = links.filter(
        (pl.col("kind") == WaitKind.EVENT_SYNC.value)
        & pl.col("record_row").is_not_null()
        & pl.col("record_call").is_not_null()
        & pl.col("wait_call").is_not_null()
    )
    records, calls = trace.event_records, trace.api_calls
    waits = links.select(
        "process",
        records["context"].gather(links["record_row"]).alias("context"),
        records["stream"].gather(links["record_row"]).alias("stream"),
        pl.col("wait_call").alias("call"),
        calls["start_ns"].gather(links["record_call"]).alias("before_ns"),
    )
    all_of_them = _with_calls(trace, WaitKind.EVENT_SYNC)
    return _every(all_of_them, _last_end(waits, work, ["process", "context", "stream"]))


def _every(waits: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Keep the waits of which it is not known what they waited for."""
    return waits.select("call").join(known, on="call", how="left", maintain_order="left")


def _blocking_copies(trace: Trace) -> pl.DataFrame:
    """Give the copies that can block and whose call returned when they had ended, or later.

    Those are the synchronous ones, and asynchronous ones of pageable memory. A call of any other
    may return late too, but it waited for nothing.
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
    return (
        copies.filter((call["kind"] == ApiKind.COPY.value) & can_block & waited)
        .group_by(pl.col("api_row").alias("call"), "device")
        .agg(pl.col("end_ns").max().alias("until_ns"))
        .sort("call", "device")
    )


def _frees(trace: Trace, work: pl.DataFrame) -> pl.DataFrame:
    """Give the calls that allocate or free, with the work of their process they may wait for."""
    kinds = [ApiKind.ALLOCATE.value, ApiKind.FREE.value]
    calls = trace.api_calls.select(
        "process", pl.int_range(pl.len(), dtype=pl.Int64).alias("call"), "kind", "name",
        pl.col("start_ns").alias("before_ns"), (pl.col("end_ns") - pl.col("start_ns")).alias("ns"),
    ).filter(
        pl.col("kind").is_in(kinds)
        & (pl.col("ns") >= SHORTEST_WAIT_NS)
        & ~pl.col("name").cast(pl.String).str.contains("Async")
    )  # fmt: skip
    found = _last_end(calls, work, ["process"])
    # Only where the call outlived work that was running when it began.
    ended = trace.api_calls["end_ns"].gather(found["call"])
    began = trace.api_calls["start_ns"].gather(found["call"])
    return found.filter(
        (pl.col("until_ns") > began) & (pl.col("until_ns") <= ended + _CLOCKS_OF_COPY_NS)
    )


def _busy(trace: Trace, window: Window) -> dict[tuple[int, int], IntervalSet]:
    """Give for each device when it ran anything, in the window."""
    work = trace.operations.select("process", "device", "start_ns", "end_ns").filter(has_time())
    found = {}
    for (process, device), rows in (
        work.drop_nulls().partition_by("process", "device", as_dict=True).items()
    ):
        covered = intervals.union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
        if window.start_ns is not None and window.end_ns is not None:
            covered = intervals.clip(covered, window.start_ns, window.end_ns)
        found[(process, device)] = covered
    return found


def _priced(
    waits: pl.DataFrame, busy: dict[tuple[int, int], IntervalSet], window: Window
) -> pl.DataFrame:
    """Price each wait by the idle time that begins where what it waited for ends.

    Idle time has one owner: of several waits that ended with one operation, the first to begin.
    """
    if window.start_ns is not None and window.end_ns is not None:
        waits = waits.filter(
            (pl.col("start_ns") < window.end_ns) & (pl.col("end_ns") > window.start_ns)
        )
    waits = waits.sort("start_ns", "call", "device")
    idle = np.full(waits.height, 0, dtype=np.int64)
    for (process, device), covered in busy.items():
        mine = (
            (waits["process"] == process)
            & (waits["device"] == device).fill_null(False)
            & (waits["wait_ns"] >= SHORTEST_WAIT_NS)
            & (waits["until_ns"] <= waits["end_ns"] + _CLOCKS_NS).fill_null(False)
            & (waits["until_ns"] > waits["start_ns"]).fill_null(False)
        ).to_numpy()
        rows = np.flatnonzero(mine)
        until = waits["until_ns"].fill_null(0).to_numpy()[rows]
        place = np.searchsorted(covered.end, until, "left")
        # Only a place at which the device fell idle, and after which it worked again.
        place = np.minimum(place, max(len(covered) - 1, 0))
        falls_idle = (
            (place + 1 < len(covered)) & (covered.end[place] == until)
            if len(covered)
            else np.zeros(len(rows), dtype=np.bool_)
        )
        rows, place = rows[falls_idle], place[falls_idle]
        _, first = np.unique(place, return_index=True)
        idle[rows[first]] = covered.start[place[first] + 1] - covered.end[place[first]]
    known = waits["until_ns"].is_not_null()
    return waits.with_columns(pl.when(known).then(pl.Series(idle)).alias("idle_ns"))
