"""The tables that name the numbers of the others."""

from __future__ import annotations

from typing import Final

from tests.tracebuilder.identity import Row
from tests.tracebuilder.layout import Table, in_version, table
from tests.tracebuilder.versions import Schema

_COLUMNS: Final = "id:i64!* name:text label:text"

_COPY: Final = "CUDA_MEMCPY_KIND_"
_MEMORY: Final = "CUDA_MEMOPR_MEMORY_KIND_"
_LAUNCH: Final = "CUDA_KERNEL_LAUNCH_TYPE_"
_SYNC: Final = "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_"
_FLAG: Final = "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_"

_LAUNCH_TYPES: Final = {
    0: (f"{_LAUNCH}UNKNOWN", "Unknown"),
    1: (f"{_LAUNCH}REGULAR", "Regular"),
    2: (f"{_LAUNCH}COOPERATIVE_SINGLE_DEVICE", "Coop Single Device"),
    3: (f"{_LAUNCH}COOPERATIVE_MULTI_DEVICE", "Coop Multi Device"),
}

# Nothing of it depends on the version: the numbers of waits are these even where the rows differ.
_ENUMS: Final[tuple[tuple[Table, dict[int, tuple[str, str]]], ...]] = (
    (
        table("ENUM_CUDA_MEMCPY_OPER", _COLUMNS, since="3.0.0"),
        {
            0: (f"{_COPY}UNKNOWN", "Unknown"),
            1: (f"{_COPY}HTOD", "Host-to-Device"),
            2: (f"{_COPY}DTOH", "Device-to-Host"),
            3: (f"{_COPY}HTOA", "Host-to-Array"),
            4: (f"{_COPY}ATOH", "Array-to-Host"),
            5: (f"{_COPY}ATOA", "Array-to-Array"),
            6: (f"{_COPY}ATOD", "Array-to-Device"),
            7: (f"{_COPY}DTOA", "Device-to-Array"),
            8: (f"{_COPY}DTOD", "Device-to-Device"),
            9: (f"{_COPY}HTOH", "Host-to-Host"),
            10: (f"{_COPY}PTOP", "Peer-to-Peer"),
            11: (f"{_COPY}UVM_HTOD", "Unified Host-to-Device"),
            12: (f"{_COPY}UVM_DTOH", "Unified Device-to-Host"),
            13: (f"{_COPY}UVM_DTOD", "Unified Device-to-Device"),
        },
    ),
    (
        table("ENUM_CUDA_MEM_KIND", _COLUMNS, since="3.0.0"),
        {
            0: (f"{_MEMORY}PAGEABLE", "Pageable"),
            1: (f"{_MEMORY}PINNED", "Pinned"),
            2: (f"{_MEMORY}DEVICE", "Device"),
            3: (f"{_MEMORY}ARRAY", "Array"),
            4: (f"{_MEMORY}MANAGED", "Managed"),
            5: (f"{_MEMORY}DEVICE_STATIC", "Device Static"),
            6: (f"{_MEMORY}MANAGED_STATIC", "Managed Static"),
            7: (f"{_MEMORY}UNKNOWN", "Unknown"),
        },
    ),
    (
        table("ENUM_CUDA_DEV_MEM_EVENT_OPER", _COLUMNS, since="3.0.0"),
        {
            0: ("CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"),
            1: ("CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"),
        },
    ),
    (
        table("ENUM_CUDA_KRENEL_LAUNCH_TYPE", _COLUMNS, since="3.0.0", until="3.7.2"),
        _LAUNCH_TYPES,
    ),
    (table("ENUM_CUDA_KERNEL_LAUNCH_TYPE", _COLUMNS, since="3.7.2"), _LAUNCH_TYPES),
    (
        table("ENUM_CUPTI_STREAM_TYPE", _COLUMNS, since="3.7.2"),
        {
            0: (f"{_FLAG}UNKNOWN", "Unknown stream type"),
            1: (f"{_FLAG}DEFAULT", "Default stream"),
            2: (f"{_FLAG}NON_BLOCKING", "Non-blocking stream"),
            3: (f"{_FLAG}NULL", "Null stream"),
        },
    ),
    (
        table("ENUM_CUPTI_SYNC_TYPE", _COLUMNS, since="3.0.0"),
        {
            0: (f"{_SYNC}UNKNOWN", "Unknown"),
            1: (f"{_SYNC}EVENT_SYNCHRONIZE", "Event sync"),
            2: (f"{_SYNC}STREAM_WAIT_EVENT", "Stream wait sync"),
            3: (f"{_SYNC}STREAM_SYNCHRONIZE", "Stream sync"),
            4: (f"{_SYNC}CONTEXT_SYNCHRONIZE", "Context sync"),
        },
    ),
    (
        table("ENUM_CUPTI_OVERHEAD_TYPE", _COLUMNS, since="3.24.0"),
        {
            0: ("OVERHEAD_UNDEFINED", "Undefined"),
            1: ("OVERHEAD_UNKNOWN", "Unknown"),
            2: ("OVERHEAD_DRIVER_COMPILER", "Driver JIT compiler (CUDA)"),
            3: ("OVERHEAD_CUPTI_BUFFER_FLUSH", "Buffer flush (Profiler)"),
            4: ("OVERHEAD_CUPTI_INSTRUMENTATION", "Instrumentation (Profiler)"),
            5: ("OVERHEAD_CUPTI_RESOURCE", "Resource creation/destruction (Profiler)"),
            6: ("OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING", "Runtime module loading (CUDA)"),
            7: ("OVERHEAD_LAZY_FUNCTION_LOADING", "Lazy function loading (CUDA)"),
            8: ("OVERHEAD_COMMAND_BUFFER_FULL", "Command buffer full (CUDA)"),
        },
    ),
    (
        table("ENUM_DIAGNOSTIC_SEVERITY_LEVEL", _COLUMNS, since="3.11.1"),
        {
            0: ("UnknownLevel", "Unknown"),
            1: ("Info", "Info"),
            2: ("Warning", "Warning"),
            3: ("Error", "Error"),
            4: ("Verbose", "Verbose"),
        },
    ),
)

ENUMS: Final = tuple(each for each, _ in _ENUMS)


def enum_tables(schema: Schema) -> dict[str, list[Row]]:
    """Give the rows of the enum tables that a version has; 2022.2 has none."""
    return {
        each.name: [
            {"id": number, "name": name, "label": label} for number, (name, label) in labels.items()
        ]
        for each, labels in _ENUMS
        if in_version(schema, each)
    }
