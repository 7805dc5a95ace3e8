"""Rows of the CUPTI tables of a generated run, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from serving_run import (
    CONTEXT,
    STREAM_IDS,
    KernelShape,
    ServingRun,
    choose_variants,
    global_pid,
    global_tid,
    kernel_shapes,
)
from simulate import RANKS, Ints
from step_program import H2D, SYNC_KINDS, Call, Kind

Scalar: TypeAlias = "int | float | str | None"
Column: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.object_] | Scalar"
Columns: TypeAlias = Mapping[str, Column]
"""Columns by name; a scalar stands for itself in every row, a missing column is NULL.

Always with `start`, which sorts the rows and is dropped where the table has no such column.
"""

NOT_APPLICABLE = 4_294_967_295
_BUFFER_NS = 20_000_000  # rows of one process come in runs, as CUPTI hands buffers over
_SYNC_TYPES = {
    # as files of 2023.4 and 2024.2 hold them, against their own enumeration table
    Kind.STREAM_WAIT: 3,
    Kind.EVENT_SYNC: 2,
    Kind.STREAM_SYNC: 3,
    Kind.EVENT_QUERY: 2,
}
_NOT_READY = 600


def kernel_columns(run: ServingRun) -> Columns:
    """Give the KERNEL table."""
    places = run.of_calls((Kind.KERNEL, Kind.COLLECTIVE))
    calls = [run.program.calls[place] for place in places]
    variants = kernel_shapes(run.strings, run.rng)
    chosen = choose_variants(calls, variants, run.steps, run.rng)
    columns = dict(_operation_columns(run, places))
    columns |= {name: _shape_column(name, calls, variants, chosen) for name in _SHAPE_FIELDS}
    count = run.steps * len(places)
    columns |= {
        "launchType": 1, "cacheConfig": 1, "gridY": 1, "gridZ": 1, "blockY": 1, "blockZ": 1,
        "localMemoryPerThread": 0, "localMemoryTotal": 250_871_808, "sharedMemoryExecuted": 32_768,
        "sharedMemoryLimitConfig": 0, "gridId": np.tile(np.arange(1, count + 1), RANKS),
    }  # fmt: skip
    return columns


def memcpy_columns(run: ServingRun) -> Columns:
    """Give the MEMCPY table."""
    places = run.of_calls((Kind.COPY,))
    calls = run.program.calls
    up = run.per_call([call.stream == H2D for call in calls], places)
    host = run.per_call([0 if call.pageable else 1 for call in calls], places)
    return dict(_operation_columns(run, places)) | {
        "bytes": run.times.bytes[:, :, places].ravel(),
        "copyKind": np.where(up, 1, 2),
        "srcKind": np.where(up, host, 2),
        "dstKind": np.where(up, 2, host),
    }


def memset_columns(run: ServingRun) -> Columns:
    """Give the MEMSET table."""
    places = run.of_calls((Kind.MEMSET,))
    size = run.times.bytes[:, :, places].ravel()
    return dict(_operation_columns(run, places)) | {"value": 0, "bytes": size, "memKind": 2}


def runtime_columns(run: ServingRun) -> Columns:
    """Give the RUNTIME table: every call of every step."""
    calls = run.program.calls
    places = np.arange(len(calls))
    threads = [global_tid(0, call.thread) for call in calls]
    between_ranks = global_tid(1, 0) - global_tid(0, 0)
    rank = run.per_rank(list(range(RANKS)), len(calls))
    errors = [_NOT_READY if call.kind == Kind.EVENT_QUERY else 0 for call in calls]
    return {
        "start": run.times.api_start.ravel(),
        "end": run.times.api_end.ravel(),
        "eventClass": run.per_call([not call.api.startswith("cuda") for call in calls], places),
        "globalTid": run.per_call(threads, places) + rank * between_ranks,
        "correlationId": _correlations(run, places),
        "nameId": run.per_call([run.strings.id(call.api) for call in calls], places),
        "returnValue": run.per_call(errors, places),
    }


def synchronization_columns(run: ServingRun) -> Columns:
    """Give the SYNCHRONIZATION table; a row lies inside its call."""
    places = run.of_calls(SYNC_KINDS)
    calls = run.program.calls
    streams = [
        NOT_APPLICABLE
        if call.kind in (Kind.EVENT_SYNC, Kind.EVENT_QUERY)
        else STREAM_IDS[call.stream]
        for call in calls
    ]
    return dict(_identity_columns(run, places)) | {
        "start": run.times.api_start[:, :, places].ravel() + 300,
        "end": run.times.api_end[:, :, places].ravel() - 200,
        "streamId": run.per_call(streams, places),
        "syncType": run.per_call([_SYNC_TYPES.get(call.kind, 0) for call in calls], places),
        "eventId": run.per_call([_event_id(call) for call in calls], places),
    }


def event_columns(run: ServingRun) -> Columns:
    """Give the CUDA_EVENT table, one row a record, in no order of time."""
    places = run.of_calls((Kind.RECORD,))
    events = [_event_id(call) for call in run.program.calls]
    calls = run.times.api_start[:, :, places].ravel()
    return dict(_identity_columns(run, places)) | {
        "eventId": run.per_call(events, places),
        "start": calls + run.rng.integers(0, 5_000_000, len(calls)),
    }


def file_order(start: Ints, process: Ints) -> npt.NDArray[np.intp]:
    """Give the order rows have in a file: runs of one process, not sorted by time overall."""
    return np.lexsort((start, process, start // _BUFFER_NS))


def _event_id(call: Call) -> int:
    """Give the number of the event object; objects are reused in every step."""
    return NOT_APPLICABLE if call.event < 0 else call.event + 1


def _correlations(run: ServingRun, places: Ints) -> Ints:
    """Give the correlation ids of some calls, the same in each process."""
    return np.tile(run.correlation_ids[:, places].ravel(), RANKS)


def _identity_columns(run: ServingRun, places: Ints) -> Columns:
    """Give the columns that say which process, device, stream and call a row is of."""
    streams = [STREAM_IDS[call.stream] for call in run.program.calls]
    return {
        "deviceId": run.per_rank(list(range(RANKS)), len(places)),
        "contextId": CONTEXT,
        "streamId": run.per_call(streams, places),
        "correlationId": _correlations(run, places),
        "globalPid": run.per_rank([global_pid(rank) for rank in range(RANKS)], len(places)),
    }


def _operation_columns(run: ServingRun, places: Ints) -> Columns:
    """Give identity and times of the operations of some calls."""
    return dict(_identity_columns(run, places)) | {
        "start": run.times.op_start[:, :, places].ravel(),
        "end": run.times.op_end[:, :, places].ravel(),
    }


_SHAPE_FIELDS = {
    "demangledName": "demangled",
    "shortName": "short",
    "mangledName": "mangled",
    "registersPerThread": "registers",
    "blockX": "block",
    "gridX": "grid",
    "staticSharedMemory": "static_shared",
    "dynamicSharedMemory": "dynamic_shared",
}


def _shape_column(
    name: str, calls: list[Call], variants: dict[str, list[KernelShape]], chosen: Ints
) -> Ints:
    """Look one figure of every launch up in its variant."""
    column = np.empty_like(chosen)
    for index, call in enumerate(calls):
        figures = [int(getattr(shape, _SHAPE_FIELDS[name])) for shape in variants[call.work]]
        column[:, index] = np.array(figures, dtype=np.int64)[chosen[:, index]]
    return np.tile(column.ravel(), RANKS)
