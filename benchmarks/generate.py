"""Write an nsys SQLite export of a made-up LLM serving run.

    python benchmarks/generate.py OUT.sqlite --kernels 1000000 [--seed N]

The layout is that of nsys 2024.2 (schema 3.11.1): two processes with equal correlation ids, two
devices with four streams each, about 2.67 rows in the tables an audit reads for every kernel. Equal
arguments write equal rows.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

import numpy as np
from activity_rows import (
    Column,
    Columns,
    event_columns,
    file_order,
    kernel_columns,
    memcpy_columns,
    memset_columns,
    runtime_columns,
    synchronization_columns,
)
from export_schema import TABLES, column_names, create_statement
from nvtx_rows import nvtx_columns
from serving_run import (
    CONTEXT,
    FIRST_PID,
    GLOBAL_VID,
    STREAM_IDS,
    STREAM_PRIORITIES,
    ServingRun,
    build_run,
    global_pid,
    global_tid,
)
from simulate import RANKS, SESSION_BEGIN_NS

_BATCH = 50_000
_BIG_TABLES: dict[str, Callable[[ServingRun], Columns]] = {
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": event_columns,
    "NVTX_EVENTS": nvtx_columns,
    "CUPTI_ACTIVITY_KIND_RUNTIME": runtime_columns,
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": synchronization_columns,
    "CUPTI_ACTIVITY_KIND_MEMCPY": memcpy_columns,
    "CUPTI_ACTIVITY_KIND_MEMSET": memset_columns,
    "CUPTI_ACTIVITY_KIND_KERNEL": kernel_columns,
}
_GPU = {
    "vmId": GLOBAL_VID, "name": "NVIDIA H100 80GB HBM3", "isDiscrete": 1, "l2CacheSize": 52_428_800,
    "totalMemory": 85_045_870_592, "memoryBandwidth": 3_352_320_000_000,
    "clockRate": 1_980_000_000, "smCount": 132, "chipName": "GH100", "luid": 0, "revision": 161,
    "asyncEngines": 3, "threadsPerWarp": 32, "maxWarpsPerSm": 64, "maxBlocksPerSm": 32,
    "maxThreadsPerBlock": 1024, "maxRegistersPerSm": 65_536, "maxRegistersPerBlock": 65_536,
    "maxShmemPerSm": 233_472, "maxShmemPerBlock": 49_152, "maxShmemPerBlockOptin": 232_448,
    "computeMajor": 9, "computeMinor": 0, "smMajor": 9, "smMinor": 0,
}  # fmt: skip


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description="Write an nsys export of a made-up serving run.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--kernels", type=int, default=1_000_000, help="rounded up to whole steps")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for table, rows in generate(arguments.out, arguments.kernels, arguments.seed).items():
        print(f"{table:<40}{rows:>12,}")


def generate(out: Path, kernels: int, seed: int = 0) -> dict[str, int]:
    """Write the export and give the number of rows per table; a file that exists is replaced."""
    run = build_run(kernels, seed)
    unfinished = out.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    connection = sqlite3.connect(unfinished)
    connection.execute("PRAGMA synchronous = off")
    connection.execute("PRAGMA journal_mode = off")
    rows = {}
    for table in TABLES:
        connection.execute(create_statement(table))
    for table, columns_of in _BIG_TABLES.items():
        rows[table] = _write(connection, table, columns_of(run))
    for table, records in _small_tables(run).items():
        rows[table] = _write_records(connection, table, records)
    rows["StringIds"] = _write_records(
        connection, "StringIds", [{"id": key, "value": text} for key, text in run.strings.rows()]
    )
    connection.commit()
    connection.close()
    unfinished.replace(out)
    return rows


def _write(connection: sqlite3.Connection, table: str, columns: Columns) -> int:
    """Insert the rows of a large table in the order a real file has."""
    process = columns["globalPid"] if "globalPid" in columns else columns["globalTid"]
    order = file_order(np.asarray(columns["start"], np.int64), np.asarray(process, np.int64))
    ordered = [_ordered(columns.get(name), order) for name in column_names(table)]
    statement = _insert_statement(table)
    for first in range(0, len(order), _BATCH):
        count = min(_BATCH, len(order) - first)
        connection.executemany(
            statement, zip(*(_slice(column, first, count) for column in ordered), strict=True)
        )
    return len(order)


def _ordered(column: Column, order: np.typing.NDArray[np.intp]) -> Column:
    """Sort a column; a scalar stays what it is."""
    return column[order] if isinstance(column, np.ndarray) else column


def _slice(column: Column, first: int, count: int) -> Iterator[object]:
    """Give some values of a column as Python objects."""
    if isinstance(column, np.ndarray):
        return iter(column[first : first + count].tolist())
    return repeat(column, count)


def _write_records(
    connection: sqlite3.Connection, table: str, records: list[dict[str, object]]
) -> int:
    """Insert the rows of a small table; what a record lacks is NULL."""
    names = column_names(table)
    rows = ([record.get(name) for name in names] for record in records)
    connection.executemany(_insert_statement(table), rows)
    return len(records)


def _insert_statement(table: str) -> str:
    """Write the INSERT of a whole row."""
    return f"INSERT INTO {table} VALUES ({', '.join('?' * len(column_names(table)))})"


def _small_tables(run: ServingRun) -> dict[str, list[dict[str, object]]]:
    """Give the rows of the tables that do not grow with the run, and the profiler's overhead."""
    return {
        "TARGET_INFO_SESSION_START_TIME": [
            {
                "utcEpochNs": 1_718_000_000_000_000_000,
                "utcTime": "2024-06-10T06:13:20",
                "localTime": "2024-06-10T08:13:20",
            }
        ],
        "ANALYSIS_DETAILS": [
            {
                "globalVid": GLOBAL_VID,
                "duration": run.duration_ns,
                "startTime": 70_000_000,
                "stopTime": 70_000_000 + run.duration_ns,
            }
        ],
        "PROCESSES": [
            {"globalPid": global_pid(rank), "pid": FIRST_PID + rank, "name": "python3"}
            for rank in range(RANKS)
        ],
        "ThreadNames": [
            {"nameId": run.strings.id(name), "priority": 20, "globalTid": global_tid(rank, thread)}
            for rank in range(RANKS)
            for thread, name in enumerate((f"VLLM::Worker_TP{rank}", "kv-transfer"))
        ],
        "PROFILER_OVERHEAD": list(_overhead(run)),
        "TARGET_INFO_GPU": [_gpu(device) for device in range(RANKS)],
        "TARGET_INFO_CUDA_CONTEXT_INFO": [
            _context_key(rank) | {"nullStreamId": STREAM_IDS[0], "deviceId": rank}
            for rank in range(RANKS)
        ],
        "TARGET_INFO_CUDA_STREAM": [
            _context_key(rank) | {"streamId": stream, "priority": priority, "flag": 2}
            for rank in range(RANKS)
            for stream, priority in list(zip(STREAM_IDS, STREAM_PRIORITIES, strict=True))[1:]
        ],
        "META_DATA_CAPTURE": _pairs(_capture_facts()),
        "META_DATA_EXPORT": _pairs(_export_facts()),
    }


def _context_key(rank: int) -> dict[str, object]:
    """Name a context the way TARGET_INFO tables do."""
    return {"hwId": 0, "vmId": 1, "processId": FIRST_PID + rank, "contextId": CONTEXT}


def _gpu(device: int) -> dict[str, object]:
    """Describe one device."""
    uuid = f"00000000-0000-0000-0000-00000000000{device}"
    place = f"0000:{3 + device:02x}:00.0"
    return _GPU | {
        "id": device, "pwGpuId": device, "cuDevice": device, "uuid": uuid, "busLocation": place
    }  # fmt: skip


def _overhead(run: ServingRun) -> Iterator[dict[str, object]]:
    """Flush CUPTI's buffers every 100 ms in each process."""
    name = run.strings.id("CUPTI: Buffer flush")
    for start in range(SESSION_BEGIN_NS, run.duration_ns, 100_000_000):
        for rank in range(RANKS):
            tid = global_tid(rank, 0) + 11
            yield {
                "start": start, "end": start + 700_000, "globalTid": tid, "nameId": name,
                "returnValue": 0,
            }  # fmt: skip


def _capture_facts() -> list[tuple[str, str]]:
    """Give the settings of the capture."""
    return [
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("PROCESS_0:COMMAND", "python3"),
        ("PROCESS_0:COLLECT_NVTX_TRACE", "true"),
        ("PROCESS_0:COLLECT_CUDA_TRACE", "true"),
        ("PROCESS_0:CUDA_SKIP_SOME_API_CALLS", "true"),
        ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
    ]


def _export_facts() -> list[tuple[str, str]]:
    """Give the exporter's version and settings."""
    return [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", "2024.2.3.38"),
        ("EXPORT_SCHEMA_VERSION", "3.11.1"),
        ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
        ("EXPORT_SCHEMA_VERSION_MINOR", "11"),
        ("EXPORT_SCHEMA_VERSION_MICRO", "1"),
        ("EXPORT_PARAM_LAZY", "true"),
        ("EXPORT_PARAM_TIME_NORMALIZE", "false"),
        ("EXPORT_PARAM_TIME_SHIFT", "0"),
    ]


def _pairs(facts: list[tuple[str, str]]) -> list[dict[str, object]]:
    """Turn facts into rows."""
    return [{"name": name, "value": value} for name, value in facts]


if __name__ == "__main__":
    main()
