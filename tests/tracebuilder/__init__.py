"""Writes nsys exports for tests, in every layout that the reader knows."""

from __future__ import annotations

from tests.tracebuilder.calls import AUTO, NO_CORRELATION, ApiCall
from tests.tracebuilder.content import Content
from tests.tracebuilder.copies import Copy, Memset
from tests.tracebuilder.directory import make_directory_export
from tests.tracebuilder.host import (
    Diagnostic,
    GraphCreation,
    GraphNode,
    HostCallback,
    MemoryEvent,
    Overhead,
    ProfilerOverhead,
)
from tests.tracebuilder.identity import (
    DEFAULT_PROCESS,
    DEFAULT_THREAD,
    NOT_APPLICABLE,
    global_pid,
    global_tid,
    graph_node_id,
    main_thread,
    process_of,
)
from tests.tracebuilder.operations import Decompression, GraphLaunch, HostNode, Kernel
from tests.tracebuilder.ranges import Range, mark, nvtx_category, nvtx_domain
from tests.tracebuilder.sqlite_file import make_trace
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
from tests.tracebuilder.versions import SCHEMAS
from tests.tracebuilder.waits import EventRecord, Sync

__all__ = [
    "AUTO",
    "DEFAULT_PROCESS",
    "DEFAULT_THREAD",
    "NOT_APPLICABLE",
    "NO_CORRELATION",
    "SCHEMAS",
    "ApiCall",
    "Content",
    "Context",
    "Copy",
    "CudaDevice",
    "Decompression",
    "Diagnostic",
    "EventRecord",
    "Gpu",
    "GraphCreation",
    "GraphLaunch",
    "GraphNode",
    "HostCallback",
    "HostNode",
    "Kernel",
    "MemoryEvent",
    "Memset",
    "Metric",
    "MpiRank",
    "Overhead",
    "Process",
    "ProfilerOverhead",
    "Range",
    "Stream",
    "Sync",
    "Thread",
    "global_pid",
    "global_tid",
    "graph_node_id",
    "main_thread",
    "make_directory_export",
    "make_trace",
    "mark",
    "nvtx_category",
    "nvtx_domain",
    "process_of",
]
