"""Build the small tables: what was there, rather than what happened; and sampled values."""

from __future__ import annotations

import polars as pl

from overlapaudit.model import tables
from overlapaudit.model.kinds import MemoryKind
from overlapaudit.model.tables import conform, enum_of
from overlapaudit.reader.host_frames import process_of
from overlapaudit.reader.names import StringTable, named
from overlapaudit.reader.operation_frames import MEMORY_KINDS

_BLOCKING, _NON_BLOCKING, _NULL_STREAM = 1, 2, 3  # ENUM_CUPTI_STREAM_TYPE
_FREE = 1  # ENUM_CUDA_DEV_MEM_EVENT_OPER
_GPU_BITS = 0xFF


def _owner() -> pl.Expr:
    """Give the globalPid of rows that carry its parts."""
    # Plain integer arithmetic: polars has no shift, and the parts do not overlap.
    return (
        pl.col("hwId") * (1 << 56) + pl.col("vmId") * (1 << 48) + pl.col("processId") * (1 << 24)
    ).alias("process")


def streams(raw: pl.DataFrame | None, contexts: pl.DataFrame | None) -> pl.DataFrame:
    """Shape the streams; the default stream comes from its context where it has no row."""
    parts = [tables.empty(tables.TableName.STREAMS)]
    if contexts is not None:
        default = contexts.select(
            _owner(),
            context="contextId",
            stream=pl.coalesce("nullStreamId", "streamId"),  # streamId in 2022 exports
            is_default=pl.lit(True),
        )
        parts.append(conform(default, tables.STREAMS))
    if raw is not None:
        priority = pl.col("priority")
        named_rows = raw.select(
            _owner(),
            context="contextId",
            stream="streamId",
            # A signed number stored unsigned.
            priority=pl.when(priority >= 1 << 31).then(priority - (1 << 32)).otherwise(priority),
            blocking=pl.when(pl.col("flag").is_in([_BLOCKING, _NON_BLOCKING])).then(
                pl.col("flag") == _BLOCKING
            ),
            is_default=pl.col("flag") == _NULL_STREAM,
        )
        parts.append(conform(named_rows, tables.STREAMS))
    return (
        pl.concat(parts)
        .group_by("process", "context", "stream", maintain_order=True)
        .agg(pl.col("priority").last(), pl.col("blocking").last(), pl.col("is_default").any())
    )


def gpus(raw: pl.DataFrame) -> pl.DataFrame:
    """Shape the GPUs of the machine, in the order of their numbers."""
    return conform(
        raw.select(
            "name",
            gpu="id",
            sm_count=_positive("smCount"),
            copy_engines=_positive("asyncEngines"),
            memory_bytes_per_s=_positive("memoryBandwidth"),
            clock_hz=_positive("clockRate"),
            total_memory=_positive("totalMemory"),
            l2_bytes=_positive("l2CacheSize"),
        ),
        tables.GPUS,
    ).sort("gpu")


def devices(raw: pl.DataFrame) -> pl.DataFrame:
    """Shape the map from (process id, ordinal) to the machine's GPU."""
    return conform(
        raw.select(process_id="pid", device="cudaId", gpu="gpuId").unique(maintain_order=True),
        tables.DEVICES,
    )


def processes(raw: pl.DataFrame) -> pl.DataFrame:
    """Shape the processes."""
    return conform(raw.select("name", process="globalPid"), tables.PROCESSES)


def threads(source: StringTable, raw: pl.DataFrame) -> pl.DataFrame:
    """Shape the threads; of several names the last given counts."""
    frame = named(source, raw, "nameId", placeholder="thread").select(
        pl.col("name").cast(pl.String), thread="globalTid"
    )
    return conform(frame.unique("thread", keep="last", maintain_order=True), tables.THREADS)


def memory_events(raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape allocations and frees of device memory."""
    kind = enum_of(MemoryKind)
    words = pl.Series([word.value for word in MEMORY_KINDS.values()], dtype=kind)
    return conform(
        raw.select(
            "bytes",
            "address",
            process="globalPid",
            device="deviceId",
            context="contextId",
            time_ns=pl.col("start") - offset_ns,
            memory=pl.col("memKind").replace_strict(
                list(MEMORY_KINDS), words, default=None, return_dtype=kind
            ),
            frees=pl.col("memoryOperationType") == _FREE,
            correlation="correlationId",
        ),
        tables.MEMORY_EVENTS,
    )


def metrics(raw: pl.DataFrame, names: pl.DataFrame | None, offset_ns: int) -> pl.DataFrame:
    """Shape GPU metric samples. Metric numbers are not stable, so they become names."""
    if names is None:
        metric = pl.format("metric#{}", pl.col("metricId")).cast(pl.Categorical).alias("metric")
        labelled = raw.with_columns(metric)
    else:
        known = names.select(
            "typeId", "metricId", pl.col("metricName").cast(pl.Categorical).alias("metric")
        ).unique(["typeId", "metricId"], keep="first")
        labelled = raw.join(known, on=["typeId", "metricId"], how="left", maintain_order="left")
    return conform(
        labelled.select(
            "metric",
            device=pl.col("typeId") & _GPU_BITS,
            time_ns=pl.col("timestamp") - offset_ns,
            # Negative values are 32-bit wraps: unknown, not small.
            value=pl.when(pl.col("value") >= 0).then(pl.col("value")),
        ),
        tables.METRICS,
    )


def graph_nodes(raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the creation of graph nodes."""
    return conform(
        raw.select(
            node="graphNodeId",
            original="originalGraphNodeId",
            thread="globalTid",
            start_ns=pl.col("start") - offset_ns,
        ),
        tables.GRAPH_NODES,
    )


def mpi_ranks(raw: pl.DataFrame) -> pl.DataFrame:
    """Shape the MPI rank of each process."""
    return conform(
        raw.select(process_of("globalTid").alias("process"), "rank").unique(
            "process", keep="first", maintain_order=True
        ),
        tables.MPI_RANKS,
    )


def _positive(column: str) -> pl.Expr:
    """Give a property of a GPU; 0 stands for unknown (seen for GPUs that were not used)."""
    return pl.when(pl.col(column) > 0).then(pl.col(column)).alias(column)
