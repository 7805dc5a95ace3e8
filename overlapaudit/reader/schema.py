"""Every difference between versions of the nsys export, in one place.

Covers schemas 2.9.1 (nsys 2022.2) to 3.28 (2026.4). Exports are lazy: a table without rows does
not exist, and columns come and go between releases, so nothing here is assumed to be present:
an absent table is "not recorded", an absent column reads as null. All tables and columns are
addressed by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

# 0xFFFFFFFF stands for "not applicable" in ids of streams, events and event records.
NOT_APPLICABLE = 4_294_967_295


class ColumnType(Enum):
    """How the values of a column are read; keys are Int64 whatever width a file gives them."""

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its current name."""

    name: str
    type: ColumnType = ColumnType.INTEGER


@dataclass(frozen=True, slots=True)
class Table:
    """A table under all the names it has had.

    `needs` is a column that tells this table from another that bore the same name.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    needs: str | None = None

    @property
    def column_names(self) -> list[str]:
        """Give the names of the columns that are read."""
        return [column.name for column in self.columns]


def _ints(names: str) -> tuple[Column, ...]:
    return tuple(Column(name) for name in names.split())


def _texts(names: str) -> tuple[Column, ...]:
    return tuple(Column(name, ColumnType.TEXT) for name in names.split())


_PLACE = "start end deviceId contextId streamId correlationId globalPid"

KERNEL = Table(
    ("CUPTI_ACTIVITY_KIND_KERNEL",),
    _ints(f"{_PLACE} demangledName graphNodeId"),
)
KERNEL_SHORT_NAME = Table(("CUPTI_ACTIVITY_KIND_KERNEL",), _ints("shortName"))
KERNEL_SHAPE = Table(  # greenContextId from 2023.4 on
    ("CUPTI_ACTIVITY_KIND_KERNEL",),
    _ints(
        "gridX gridY gridZ blockX blockY blockZ registersPerThread "
        "staticSharedMemory dynamicSharedMemory greenContextId"
    ),
)
MEMCPY = Table(
    ("CUPTI_ACTIVITY_KIND_MEMCPY",),
    _ints(f"{_PLACE} bytes copyKind srcKind dstKind srcDeviceId dstDeviceId graphNodeId"),
)
MEMSET = Table(("CUPTI_ACTIVITY_KIND_MEMSET",), _ints(f"{_PLACE} bytes graphNodeId"))
GRAPH_TRACE = Table(("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",), _ints(f"{_PLACE} graphId"))  # 2024.x on
DECOMPRESS = Table(
    ("CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS",), _ints(f"{_PLACE} sourceBytes")
)  # 2026.4
RUNTIME = Table(
    ("CUPTI_ACTIVITY_KIND_RUNTIME",),
    _ints("start end eventClass globalTid correlationId nameId returnValue"),
)
SYNCHRONIZATION = Table(  # eventSyncId from 2025.3 on; syncType is not to be trusted before 2026
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",),
    _ints(f"{_PLACE} eventId eventSyncId"),
)
CUDA_EVENT = Table(  # timestamp and eventSyncId from 2025.5 on
    ("CUPTI_ACTIVITY_KIND_CUDA_EVENT",),
    _ints("deviceId contextId streamId correlationId globalPid eventId eventSyncId timestamp"),
)
NVTX = Table(
    ("NVTX_EVENTS",),
    (
        *_ints(
            "start end eventType rangeId category globalTid endGlobalTid textId domainId "
            "uint64Value int64Value uint32Value int32Value"
        ),
        Column("doubleValue", ColumnType.REAL),
        Column("floatValue", ColumnType.REAL),
        *_texts("text"),
    ),
)
NVTX_PAYLOAD = Table(
    ("NVTX_EVENTS",), (*_ints("start globalTid domainId jsonTextId"), *_texts("jsonText"))
)
STRINGS = Table(("StringIds",), (*_ints("id"), *_texts("value")))
GPU = Table(
    ("TARGET_INFO_GPU",),
    (
        *_ints("id memoryBandwidth clockRate smCount totalMemory l2CacheSize asyncEngines"),
        *_texts("name"),
    ),
)
CUDA_DEVICE = Table(("TARGET_INFO_CUDA_DEVICE",), _ints("gpuId cudaId pid"))  # 2025.3 on
CONTEXT = Table(  # TARGET_INFO_CUDA_NULL_STREAM in 2022, with streamId for nullStreamId
    ("TARGET_INFO_CUDA_CONTEXT_INFO", "TARGET_INFO_CUDA_NULL_STREAM"),
    _ints("nullStreamId streamId hwId vmId processId deviceId contextId"),
)
STREAM = Table(
    ("TARGET_INFO_CUDA_STREAM",), _ints("streamId hwId vmId processId contextId priority flag")
)
PROCESS = Table(("PROCESSES",), (*_ints("globalPid"), *_texts("name")))
THREAD = Table(("ThreadNames",), _ints("nameId globalTid"))
# 2022.4 and 2023.4 keep node creation in CUDA_GRAPH_EVENTS, which from 2024 on holds graphs.
GRAPH_NODE = Table(
    ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS"),
    _ints("start globalTid graphNodeId originalGraphNodeId"),
    needs="graphNodeId",
)
OVERHEAD = Table(  # 2025.5 on
    ("CUPTI_ACTIVITY_KIND_OVERHEAD",),
    _ints("start end globalTid correlationId nameId overheadType"),
)
PROFILER_OVERHEAD = Table(("PROFILER_OVERHEAD",), _ints("start end globalTid nameId"))
OS_RUNTIME = Table(("OSRT_API",), _ints("start end globalTid nameId"))
MEMORY = Table(
    ("CUDA_GPU_MEMORY_USAGE_EVENTS",),
    _ints(
        "start globalPid deviceId contextId address bytes memKind memoryOperationType correlationId"
    ),
)
METRIC = Table(("GPU_METRICS",), _ints("timestamp typeId metricId value"))
METRIC_NAME = Table(
    ("TARGET_INFO_GPU_METRICS",), (*_ints("typeId metricId"), *_texts("metricName"))
)
EXPORT_SETTINGS = Table(("META_DATA_EXPORT", "EXPORT_META_DATA"), _texts("name value"))
CAPTURE_SETTINGS = Table(("META_DATA_CAPTURE",), _texts("name value"))
SYSTEM = Table(("TARGET_INFO_SYSTEM_ENV",), _texts("name value"))
SESSION_START = Table(("TARGET_INFO_SESSION_START_TIME",), _ints("utcEpochNs"))
SESSION = Table(("ANALYSIS_DETAILS",), _ints("duration startTime stopTime"))
DIAGNOSTIC = Table(("DIAGNOSTIC_EVENT",), (*_ints("severity source"), *_texts("text")))
MPI_RANK = Table(("MPI_RANKS",), _ints("globalTid rank"))
CALLCHAIN = Table(("CUDA_CALLCHAINS",), _ints("id"))

GPU_WORK = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE, DECOMPRESS)
# What every version has in every table of GPU work, and no audit can do without.
ESSENTIAL = ("start", "end", "deviceId", "globalPid")
# A file that holds none of these is no export at all.
_SIGNS_OF_AN_EXPORT = (*GPU_WORK, RUNTIME, STRINGS, NVTX, EXPORT_SETTINGS, SESSION, PROCESS, GPU)


def physical_name(table: Table, columns_of: dict[str, list[str]]) -> str | None:
    """Find what `table` is called in a file, given the columns of each of the file's tables.

    Matches whole names without regard to case, as SQLite does; of names with a version suffix
    (`_V2`, `_V10`) the highest number wins. None: the file has no such table.
    """
    for name in table.names:
        pattern = re.compile(rf"{name}(?:_V(\d{{1,4}}))?", re.IGNORECASE)
        found = [
            (int(match[1] or 0), actual)
            for actual in columns_of
            if (match := pattern.fullmatch(actual)) and _fits(table, columns_of[actual])
        ]
        if found:
            return max(found)[1]
    return None


def looks_like_an_export(columns_of: dict[str, list[str]]) -> bool:
    """Tell an nsys export, however thin, from some other database."""
    return any(physical_name(table, columns_of) for table in _SIGNS_OF_AN_EXPORT)


def present_columns(table: Table, actual: Iterable[str]) -> dict[str, str]:
    """Map each wanted column that the file has onto the file's own spelling of it."""
    spelled = {name.lower(): name for name in actual}
    return {
        column.name: spelled[column.name.lower()]
        for column in table.columns
        if column.name.lower() in spelled
    }


def _fits(table: Table, actual: Iterable[str]) -> bool:
    """Tell this table from another of its name, and from one that holds nothing of it."""
    names = {name.lower() for name in actual}
    if table.needs is not None and table.needs.lower() not in names:
        return False
    return any(name.lower() in names for name in table.column_names)
