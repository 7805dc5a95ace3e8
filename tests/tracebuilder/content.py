"""What a trace is built from, and the tables that this comes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Final, TypedDict

from tests.tracebuilder.calls import Activity, ApiCall
from tests.tracebuilder.copies import Copy, Memset
from tests.tracebuilder.enums import enum_tables
from tests.tracebuilder.host import (
    Diagnostic,
    GraphCreation,
    GraphNode,
    HostCallback,
    MemoryEvent,
    Overhead,
    ProfilerOverhead,
)
from tests.tracebuilder.identity import Row, process_of
from tests.tracebuilder.launches import launch
from tests.tracebuilder.meta import (
    Pairs,
    capture_pairs,
    export_pairs,
    session_rows,
    system_rows,
)
from tests.tracebuilder.operations import Decompression, GraphLaunch, HostNode, Kernel
from tests.tracebuilder.ranges import Range
from tests.tracebuilder.tables import check_columns
from tests.tracebuilder.target import (
    Context,
    CudaDevice,
    Gpu,
    Metric,
    MpiRank,
    Process,
    Stream,
    Thread,
)
from tests.tracebuilder.versions import Schema
from tests.tracebuilder.waits import EventRecord, Sync

UTC_START_NS: Final = 1_700_000_000_000_000_000
CLOCK_START_NS: Final = 2_000_000_000


class Content(TypedDict, total=False):
    """What make_trace takes; everything may be left out.

    Where None is allowed it stands for what follows from the rest (a process for each that occurs,
    a context and a device for each that work ran in, GPUs up to the last of them, the last end for
    the duration); an empty sequence writes none. `raw_rows` adds rows to any table, after those of
    the rest; strings may stand where a column holds their id.
    """

    kernels: Sequence[Kernel]
    copies: Sequence[Copy]
    memsets: Sequence[Memset]
    graph_launches: Sequence[GraphLaunch]
    decompressions: Sequence[Decompression]
    host_nodes: Sequence[HostNode]
    host_callbacks: Sequence[HostCallback]
    api_calls: Sequence[ApiCall]
    syncs: Sequence[Sync]
    event_records: Sequence[EventRecord]
    ranges: Sequence[Range]
    graph_nodes: Sequence[GraphNode]
    graph_creations: Sequence[GraphCreation]
    memory_events: Sequence[MemoryEvent]
    metrics: Sequence[Metric]
    overheads: Sequence[Overhead]
    profiler_overheads: Sequence[ProfilerOverhead]
    diagnostics: Sequence[Diagnostic]
    gpus: Sequence[Gpu] | None
    cuda_devices: Sequence[CudaDevice] | None
    contexts: Sequence[Context] | None
    streams: Sequence[Stream]
    processes: Sequence[Process] | None
    threads: Sequence[Thread]
    mpi_ranks: Sequence[MpiRank]
    capture_settings: Pairs
    export_settings: Pairs
    system_env: Pairs
    duration_ns: int | None
    utc_start_ns: int
    clock_start_ns: int
    raw_rows: Mapping[str, Sequence[Row]]


def assemble(
    schema: Schema, content: Content, *, lazy: bool, kind: str = "sqlite"
) -> dict[str, list[Row]]:
    """Give the rows of each table, in the columns of all versions.

    Raises:
        ValueError: correlation ids contradict each other, or `raw_rows` has columns that no
            version has.
    """
    tables = _activity_tables(schema, content)
    _add_host_tables(tables, schema, content)
    for name, rows in content.get("raw_rows", {}).items():
        check_columns(name, chain.from_iterable(rows))
        tables.setdefault(name, []).extend(dict(row) for row in rows)
    _add_target_tables(tables, schema, content)
    _add_meta(tables, schema, content, lazy=lazy, kind=kind)
    return tables


def _activity_tables(schema: Schema, content: Content) -> dict[str, list[Row]]:
    activities: tuple[Activity, ...] = (
        *_work(content),
        *content.get("syncs", ()),
        *content.get("event_records", ()),
    )
    launched = launch(activities, content.get("api_calls", ()))
    tables: dict[str, list[Row]] = {}
    for row, correlation in zip(activities, launched.correlations, strict=True):
        tables.setdefault(row.table, []).append(row.columns(schema, correlation))
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"] = [
        each.call.columns(each.thread, each.correlation) for each in launched.calls
    ]
    return tables


def _work(content: Content) -> Iterable[Activity]:
    return chain(
        content.get("kernels", ()),
        content.get("copies", ()),
        content.get("memsets", ()),
        content.get("graph_launches", ()),
        content.get("decompressions", ()),
        content.get("host_nodes", ()),
    )


def _add_host_tables(tables: dict[str, list[Row]], schema: Schema, content: Content) -> None:
    split = schema.at_least("3.11.1")
    nodes = [node.columns() for node in content.get("graph_nodes", ())]
    tables["CUDA_GRAPH_NODE_EVENTS" if split else "CUDA_GRAPH_EVENTS"] = nodes
    if split:
        creations = content.get("graph_creations", ())
        tables["CUDA_GRAPH_EVENTS"] = [creation.columns() for creation in creations]
    tables["NVTX_EVENTS"] = [
        {**each.columns(), "eventId": number}
        for number, each in enumerate(content.get("ranges", ()))
    ]
    tables["CUDA_GPU_MEMORY_USAGE_EVENTS"] = [e.columns() for e in content.get("memory_events", ())]
    tables["CUPTI_ACTIVITY_KIND_OVERHEAD"] = [o.columns() for o in content.get("overheads", ())]
    tables["PROFILER_OVERHEAD"] = [o.columns() for o in content.get("profiler_overheads", ())]
    tables["CUDA_HOST_CALLBACK"] = [c.columns() for c in content.get("host_callbacks", ())]
    tables["DIAGNOSTIC_EVENT"] = [d.columns() for d in content.get("diagnostics", ())]
    metrics = content.get("metrics", ())
    names = {name: number for number, name in enumerate(dict.fromkeys(m.name for m in metrics))}
    tables["GPU_METRICS"] = [metric.columns(names[metric.name]) for metric in metrics]
    first = {(metric.gpu, metric.name): metric for metric in reversed(metrics)}
    tables["TARGET_INFO_GPU_METRICS"] = [
        first[key].name_columns(names[key[1]]) for key in sorted(first)
    ]


def _add_target_tables(tables: dict[str, list[Row]], schema: Schema, content: Content) -> None:
    tables["ThreadNames"] = [thread.columns() for thread in content.get("threads", ())]
    tables["MPI_RANKS"] = [rank.columns() for rank in content.get("mpi_ranks", ())]
    processes = content.get("processes")
    if processes is None:
        processes = [Process(process=process) for process in _processes(tables)]
    used = sorted({(row.process, row.context, row.device) for row in _work(content)})
    contexts = content.get("contexts")
    if contexts is None:
        contexts = [Context(context, device, process) for process, context, device in used]
    gpus = content.get("gpus")
    if gpus is None:
        gpus = [Gpu(number) for number in range(1 + max((key[2] for key in used), default=0))]
    devices = content.get("cuda_devices")
    if devices is None:
        ids = {gpu.id for gpu in gpus}
        pairs = dict.fromkeys((process, device) for process, _, device in used if device in ids)
        devices = [CudaDevice(device, device, process) for process, device in pairs]
    streams = content.get("streams", ())
    tables["PROCESSES"] = [process.columns() for process in processes]
    tables["TARGET_INFO_GPU"] = [gpu.columns() for gpu in gpus]
    tables["TARGET_INFO_CUDA_DEVICE"] = [device.columns() for device in devices]
    tables["TARGET_INFO_CUDA_CONTEXT_INFO"] = [context.columns(schema) for context in contexts]
    tables["TARGET_INFO_CUDA_NULL_STREAM"] = [each.null_stream_columns() for each in contexts]
    tables["TARGET_INFO_CUDA_STREAM"] = [stream.columns() for stream in streams]
    tables["TARGET_INFO_NVTX_CUDA_STREAM"] = [
        stream.name_columns() for stream in streams if stream.name is not None
    ]


def _processes(tables: Mapping[str, Sequence[Row]]) -> list[int]:
    found = {
        row.get(column)
        for row in chain.from_iterable(tables.values())
        for column in ("globalPid", "globalTid")
    }
    return sorted({process_of(value) for value in found if isinstance(value, int)})


def _add_meta(
    tables: dict[str, list[Row]], schema: Schema, content: Content, *, lazy: bool, kind: str
) -> None:
    duration_ns = content.get("duration_ns")
    utc_start_ns = content.get("utc_start_ns", UTC_START_NS)
    session = session_rows(
        duration_ns=_last_end(tables) if duration_ns is None else duration_ns,
        utc_start_ns=utc_start_ns,
        clock_start_ns=content.get("clock_start_ns", CLOCK_START_NS),
    )
    exported = export_pairs(
        schema,
        lazy=lazy,
        kind=kind,
        utc_start_ns=utc_start_ns,
        given=content.get("export_settings", ()),
    )
    captured = capture_pairs(
        schema,
        graph_nodes=any(kernel.graph_node is not None for kernel in content.get("kernels", ())),
        given=content.get("capture_settings", ()),
    )
    meta: dict[str, list[Row]] = {
        **{name: [row] for name, row in session.items()},
        "TARGET_INFO_SYSTEM_ENV": system_rows(schema, content.get("system_env", ())),
        "META_DATA_CAPTURE": captured,
        "META_DATA_EXPORT" if schema.at_least("3.7.2") else "EXPORT_META_DATA": exported,
        **enum_tables(schema),
    }
    for name, rows in meta.items():
        tables[name] = [*rows, *tables.get(name, ())]


def _last_end(tables: Mapping[str, Sequence[Row]]) -> int:
    times = chain.from_iterable(
        map(dict.get, chain.from_iterable(tables.values()), repeat(column))
        for column in ("end", "start", "timestamp")
    )
    return max((time for time in times if isinstance(time, int)), default=0)
