"""Communication kernels of a trace, told apart so that those of several ranks can be matched."""

from __future__ import annotations

import re

import polars as pl

from overlapaudit.analysis.lanes import has_time
from overlapaudit.model.kinds import Lane, OpKind
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace

# One row for each communication kernel.
COLLECTIVES: dict[str, pl.DataType] = {
    "process": pl.Int64(),
    "device": pl.Int64(),
    "kind": pl.String(),  # AllReduce, AllGather, …; else the class and the bare name
    # Of the process' communication streams of this kind the first, second, …; stream ids differ
    # between ranks. Null where the communicator is known.
    "stream_order": pl.Int64(),
    "communicator": pl.String(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
}

# What collectives of the same ranks have in common.
KEY = ["kind", "communicator", "stream_order"]
# These involve two ranks at a time: which, a trace does not say.
PAIRWISE = "SendRecv"
# Kinds in which every rank needs something from every other, so that they end together.
SYMMETRIC = re.compile(
    r"(?i)all_?reduce|all_?gather|all_?to_?all|\bcomm\.a2a\.(dispatch|combine)\b|cross_device_reduce"
)
_NCCL = re.compile(
    r"nccl\w*Kernel_(AllReduce|AllGatherV|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AlltoAll)"
)
_BARE = re.compile(r"^(?:void )?([^<(]*)")
_NCCL_ENGINE = "nccl"
_COMMUNICATOR = re.compile(r'"NCCL communicator ID"\s*:\s*"?(\w+)')


def collectives(trace: Trace) -> pl.DataFrame:
    """Give the communication kernels of a trace in the order of their start."""
    operations = trace.operations
    rows = operations.select(
        "kind", "lane", "process", "device", "context", "stream", "name", "class", "start_ns",
        "end_ns", "api_row", "graph_node",
    ).filter(
        (pl.col("lane") == Lane.COMM.value) & (pl.col("kind") == OpKind.KERNEL.value) & has_time()
    )  # fmt: skip
    if rows.is_empty():
        return pl.DataFrame(schema=COLLECTIVES)
    names = rows.select("name", "class").unique().drop_nulls("name")
    kinds = names.with_columns(
        kind=pl.Series(
            [_kind(name, of_class) for name, of_class in names.cast(pl.String).rows()],
            dtype=pl.String,
        )
    )
    rows = (
        rows.drop("kind")
        .join(kinds.drop("class"), on="name", how="left", maintain_order="left")
        .with_columns(pl.Series("communicator", _communicators(trace, rows)))
        .sort("start_ns", maintain_order=True)
    )
    stream = pl.struct("context", "stream")
    first = pl.col("start_ns").min().over("process", "device", "kind", stream)
    return rows.with_columns(
        stream_order=pl.when(pl.col("communicator").is_null()).then(
            first.rank("dense").over("process", "device", "kind").cast(pl.Int64)
        )
    ).select([pl.col(name).cast(dtype) for name, dtype in COLLECTIVES.items()])


def _kind(name: str, of_class: str | None) -> str:
    nccl = _NCCL.search(name)
    if nccl is not None:
        return nccl[1]
    bare = _BARE.match(name)
    return f"{of_class} {bare[1].strip() if bare else name}"[:200]


def _communicators(trace: Trace, rows: pl.DataFrame) -> pl.Series:
    """Give the communicator of each kernel: that of NCCL's last range before its launch.

    Kernels of others have none; those of a replay were enqueued when it was captured.
    """
    nothing = pl.repeat(None, rows.height, dtype=pl.String, eager=True)
    if TableName.RANGES not in trace.recording.tables:
        return nothing
    if not (trace.ranges["engine"].cast(pl.String) == _NCCL_ENGINE).any():
        return nothing
    payloads = trace.table(TableName.PAYLOADS)
    known = payloads.with_columns(
        communicator=pl.col("json").str.extract(_COMMUNICATOR.pattern)
    ).drop_nulls(["communicator", "thread", "start_ns"])  # fmt: skip
    if known.is_empty():
        return nothing
    names = rows["name"].cast(pl.String)
    api_rows = pl.select(
        pl.when(names.str.contains(_NCCL.pattern) & rows["graph_node"].is_null()).then(
            rows["api_row"]
        )
    ).to_series()
    asked = trace.api_calls.select(pl.col("thread", "start_ns").gather(api_rows))
    found = (
        asked.with_row_index("row")
        .sort("start_ns")
        .join_asof(
            known.select("thread", "start_ns", "communicator").sort("start_ns"),
            on="start_ns",
            by="thread",
            check_sortedness=False,
        )
        .sort("row")
    )
    communicators: pl.Series = found["communicator"]
    return communicators
