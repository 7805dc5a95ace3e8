"""The fixed tables of a trace: column names and types, the same for every source and version.

Times are integer ns since the session start, intervals half-open. A null is "not recorded" or
"does not apply". `process` is nsys' globalPid, `thread` its globalTid. `api_row` is the row of
`API_CALLS` that caused this row, joined on (process, correlation), null where it was not recorded.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import polars as pl

from overlapaudit.model import kinds

Schema: TypeAlias = dict[str, pl.DataType]


def enum_of(kind: type[kinds.Kind]) -> pl.Enum:
    """Give the polars type that holds the members of a kind."""
    return pl.Enum([member.value for member in kind])


_INT = pl.Int64()
_NAME = pl.Categorical()
_TEXT = pl.String()

# One row per operation that a device carried out. start_ns and end_ns are null together: rows
# that nsys wrote without times (start = end = 0), or with times that cannot be.
OPERATIONS: Schema = {
    "kind": enum_of(kinds.OpKind),
    "process": _INT,
    "device": _INT,  # the ordinal as the process sees it
    "context": _INT,
    "stream": _INT,
    "start_ns": _INT,
    "end_ns": _INT,
    "correlation": _INT,
    "name": _NAME,  # kernels only: the demangled name
    "direction": enum_of(kinds.Direction),  # copies only
    "bytes": _INT,  # copies and memsets
    "source": enum_of(kinds.MemoryKind),
    "destination": enum_of(kinds.MemoryKind),
    "graph_node": _INT,  # node-level graphs: the executable graph's node
    "graph": _INT,  # graph-level traces: the graph whose whole replay this row is
    "api_row": _INT,
    "class": _NAME,  # kernels only: by the rules
    "lane": enum_of(kinds.Lane),
}

API_CALLS: Schema = {
    "kind": enum_of(kinds.ApiKind),
    "name": _NAME,  # without the version suffix
    "process": _INT,
    "thread": _INT,
    "start_ns": _INT,
    "end_ns": _INT,
    "correlation": _INT,
    "returned": _INT,  # raw cudaError_t or CUresult, 0 is success
    "per_thread_stream": pl.Boolean(),  # built with per-thread default streams (_ptsz, _ptds)
}

RANGES: Schema = {
    "kind": enum_of(kinds.RangeKind),
    "text": _TEXT,  # "" where the range was given no name
    "domain": _TEXT,  # null: the default domain, or a domain whose name was not recorded
    "domain_id": _INT,
    "category": _INT,
    "process": _INT,
    "thread": _INT,
    "end_thread": _INT,  # the thread that closed it
    "start_ns": _INT,
    "end_ns": _INT,  # null: not closed within the trace, or a mark
    "range_id": _INT,
    "payload": _INT,
    "payload_real": pl.Float64(),
    "level": _NAME,  # by the rules: request, iteration, layer, cache, mech, or a foreign one
    "phase": _NAME,  # the same
    "engine": _NAME,  # whose marker it is
    "key": _INT,  # request id, step number, layer index, block count
    "facts": _TEXT,  # key=value pairs of our own markers, as they stand there
}

PAYLOADS: Schema = {  # extended payloads of ranges, decoded; only where the export holds them
    "thread": _INT,
    "domain_id": _INT,
    "start_ns": _INT,
    "json": _TEXT,
}

WAITS: Schema = {
    "kind": enum_of(kinds.WaitKind),
    "process": _INT,
    "device": _INT,
    "context": _INT,
    "stream": _INT,  # of a stream wait: the stream that waits
    "start_ns": _INT,
    "end_ns": _INT,
    "correlation": _INT,
    "event": _INT,  # the event object; reused by each record
    "event_sync": _INT,  # one record of it (nsys 2025.3 and later)
    "api_row": _INT,
}

EVENT_RECORDS: Schema = {
    "process": _INT,
    "device": _INT,
    "context": _INT,
    "stream": _INT,
    "correlation": _INT,
    "event": _INT,
    "event_sync": _INT,
    "completed_ns": _INT,  # on the device; only with --cuda-event-trace
    "api_row": _INT,
}

MEMORY_EVENTS: Schema = {
    "process": _INT,
    "device": _INT,
    "context": _INT,
    "time_ns": _INT,
    "bytes": _INT,
    "address": _INT,
    "memory": enum_of(kinds.MemoryKind),
    "frees": pl.Boolean(),
    "correlation": _INT,
}

METRICS: Schema = {
    "device": _INT,  # index of the GPU in the machine, not a process' ordinal
    "time_ns": _INT,
    "metric": _NAME,
    "value": _INT,  # null where nsys wrote a negative number: unknown
}

STREAMS: Schema = {
    "process": _INT,
    "context": _INT,
    "stream": _INT,
    "priority": _INT,
    "blocking": pl.Boolean(),  # with respect to the legacy default stream; null: not known
    "is_default": pl.Boolean(),
}

GPUS: Schema = {
    "gpu": _INT,
    "name": _TEXT,
    "sm_count": _INT,
    "copy_engines": _INT,
    "memory_bytes_per_s": _INT,
    "clock_hz": _INT,
    "total_memory": _INT,
    "l2_bytes": _INT,
}

DEVICES: Schema = {"process_id": _INT, "device": _INT, "gpu": _INT}

PROCESSES: Schema = {"process": _INT, "name": _TEXT}

THREADS: Schema = {"thread": _INT, "name": _TEXT}

OVERHEADS: Schema = {  # of the application: queue full, lazy loading, JIT
    "start_ns": _INT,
    "end_ns": _INT,
    "thread": _INT,
    "correlation": _INT,
    "type": _INT,  # 2 driver compiler, 6 module loading, 7 lazy function loading, 8 queue full
    "name": _NAME,
}

PROFILER_OVERHEADS: Schema = {  # of the tool itself
    "start_ns": _INT,
    "end_ns": _INT,
    "thread": _INT,
    "name": _NAME,
}

OS_CALLS: Schema = {  # calls of the operating system that took long enough to be recorded
    "start_ns": _INT,
    "end_ns": _INT,
    "thread": _INT,
    "name": _NAME,
}

GRAPH_NODES: Schema = {
    "node": _INT,
    "original": _INT,
    "thread": _INT,
    "start_ns": _INT,
}

DIAGNOSTICS: Schema = {"severity": _INT, "source": _INT, "text": _TEXT}

MPI_RANKS: Schema = {"process": _INT, "rank": _INT}

KERNEL_SHAPES: Schema = {  # one row per kernel of OPERATIONS, in the same order
    "grid_x": _INT,
    "grid_y": _INT,
    "grid_z": _INT,
    "block_x": _INT,
    "block_y": _INT,
    "block_z": _INT,
    "registers": _INT,
    "static_shared_bytes": _INT,
    "dynamic_shared_bytes": _INT,
    "green_context": _INT,
}


class TableName(str, Enum):
    """The tables of a trace by name."""

    OPERATIONS = "operations"
    API_CALLS = "api_calls"
    RANGES = "ranges"
    PAYLOADS = "payloads"
    WAITS = "waits"
    EVENT_RECORDS = "event_records"
    MEMORY_EVENTS = "memory_events"
    METRICS = "metrics"
    STREAMS = "streams"
    GPUS = "gpus"
    DEVICES = "devices"
    PROCESSES = "processes"
    THREADS = "threads"
    OVERHEADS = "overheads"
    PROFILER_OVERHEADS = "profiler_overheads"
    OS_CALLS = "os_calls"
    GRAPH_NODES = "graph_nodes"
    DIAGNOSTICS = "diagnostics"
    MPI_RANKS = "mpi_ranks"
    KERNEL_SHAPES = "kernel_shapes"

    @property
    def schema(self) -> Schema:
        """Give the columns of this table."""
        schema: Schema = globals()[self.name]
        return schema


def empty(table: TableName) -> pl.DataFrame:
    """Give the table without rows."""
    return pl.DataFrame(schema=table.schema)


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Give `frame` the columns of `schema`, in order; columns it lacks become null."""
    present = set(frame.columns)
    return frame.select(
        pl.col(name).cast(dtype) if name in present else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in schema.items()
    )
