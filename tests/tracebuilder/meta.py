"""What an export says of itself, of the capture, and of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Final

from tests.tracebuilder.identity import GLOBAL_VID, Row
from tests.tracebuilder.versions import Schema

Pairs = Sequence[tuple[str, str]]

# The numbers of a few well-known rows of TARGET_INFO_SYSTEM_ENV
_ENV_NUMBERS: Final = {
    "TargetInstallDir": 170,
    "NvDriverVersion": 205,
    "CudaDriverVersion": 611,
    "Hostname": 619,
}
_DEVICE_STATE: Final = "Local (CLI)"

# The driver, and the CUDA version that it has, from a schema version on
_DRIVERS: Final = (
    ("3.24.0", "580.95.05", "13000"),
    ("3.11.1", "550.54.15", "12040"),
    ("3.7.2", "535.183.01", "12020"),
    ("0.0.0", "515.86.01", "11070"),
)


def export_pairs(
    schema: Schema, *, lazy: bool, kind: str, utc_start_ns: int, given: Pairs
) -> list[Row]:
    """Give the rows of META_DATA_EXPORT, or of EXPORT_META_DATA before 3.7.2."""
    release = ".".join(schema.exporter.split(".")[:2])
    major, minor, micro = schema.number
    time = _utc_time(utc_start_ns)
    pairs = [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", schema.exporter),
        ("EXPORT_PRODUCT_DATE", release),
        ("EXPORT_SCHEMA_VERSION", schema.text),
        ("EXPORT_SCHEMA_VERSION_MAJOR", str(major)),
        ("EXPORT_SCHEMA_VERSION_MINOR", str(minor)),
        ("EXPORT_SCHEMA_VERSION_MICRO", str(micro)),
        ("EXPORT_SCHEMA_VERSION_CKSUM", "0 0"),
        ("EXPORT_PLATFORM", "linux-desktop"),
        ("EXPORT_ARCH", "x64"),
        ("EXPORT_TIME_UTC", time),
    ]
    if schema.at_least("3.7.2"):
        pairs += [("EXPORT_TIME_LOCAL", f"{time} +0000 UTC"), *_host()]
        pairs += _parameters(schema, lazy=lazy, kind=kind)
        pairs += [("EXPORT_CONFIG_TIME_SHIFT", "0"), ("EXPORT_TIME", "0.01 sec")]
    else:
        pairs += [("EXPORT_TIME", "0.01"), ("EXPORT_TIME_LOCAL", time), *_host()]
        pairs += [*_files("EXPORT_", "OUTUPT"), ("EXPORT_OVERWRITE", "false")]
        pairs += [("EXPORT_LAZY", _truth(lazy))]
    return _rows(_overridden(pairs, given))


def capture_pairs(schema: Schema, *, graph_nodes: bool, given: Pairs) -> list[Row]:
    """Give the rows of META_DATA_CAPTURE.

    A name that is given replaces ours, with and without the prefix of a process.
    """
    cuda = [
        ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node" if graph_nodes else "Graph"),
        ("CUDA_FLUSH_PERIODICALLY", "true"),
        ("CUDA_FLUSH_PERIOD", "0"),
        ("CUDA_SKIP_SOME_API_CALLS", "true"),
        ("CUDA_FLUSH_ON_CUDA_PROFILER_STOP", "true"),
        ("CUDA_TRACE_SCOPE", "ProcessTree"),
    ]
    bare = cuda if schema.at_least("3.24.14") else []
    pairs = [
        ("DEVICE_ID", _DEVICE_STATE),
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("RATE_HZ", "0"),
        ("START_TRIGGER", "Immediate"),
        ("STOP_TRIGGER", "Delayed"),
        ("DEVICE_TYPE", "Unix"),
        ("DEVICE_DISPLAY_NAME", "host"),
        *bare,
        ("PROCESS_0:HOW_TO_ATTACH", "LaunchAnother"),
        ("PROCESS_0:COMMAND", "app"),
        ("PROCESS_0:COLLECT_NVTX_TRACE", "true"),
        ("PROCESS_0:COLLECT_CUDA_TRACE", "true"),
        *((f"PROCESS_0:{name}", value) for name, value in cuda),
    ]
    return _rows(_overridden(pairs, given))


def system_rows(schema: Schema, given: Pairs) -> list[Row]:
    """Give the rows of TARGET_INFO_SYSTEM_ENV."""
    collector = ".".join(schema.exporter.split(".")[:3])
    driver, cuda = next(row[1:] for row in _DRIVERS if schema.at_least(row[0]))
    pairs = [
        ("TargetInstallDir", f"/opt/nvidia/nsight-systems/{collector}/target-linux-x64"),
        ("NvDriverVersion", driver),
        ("CudaDriverVersion", cuda),
        ("Hostname", ""),
    ]
    return [
        {
            "globalVid": GLOBAL_VID,
            "devStateName": _DEVICE_STATE,
            "nameEnum": _ENV_NUMBERS.get(str(row["name"]), 0),
            **row,
        }
        for row in _rows(_overridden(pairs, given))
    ]


def session_rows(*, duration_ns: int, utc_start_ns: int, clock_start_ns: int) -> dict[str, Row]:
    """Give the rows of ANALYSIS_DETAILS and TARGET_INFO_SESSION_START_TIME, one of each."""
    time = _utc_time(utc_start_ns)
    return {
        "ANALYSIS_DETAILS": {
            "globalVid": GLOBAL_VID,
            "duration": duration_ns,
            "startTime": clock_start_ns,
            "stopTime": clock_start_ns + duration_ns,
        },
        "TARGET_INFO_SESSION_START_TIME": {
            "utcEpochNs": utc_start_ns,
            "utcTime": time,
            "localTime": time,
            "systemClockNs": clock_start_ns,
        },
    }


def _parameters(schema: Schema, *, lazy: bool, kind: str) -> Pairs:
    pairs = _files("EXPORT_PARAM_", "OUTPUT" if schema.at_least("3.13.2") else "OUTUPT")
    pairs += [
        ("EXPORT_PARAM_OVERWRITE", "false"),
        ("EXPORT_PARAM_APPEND", "false"),
        ("EXPORT_PARAM_LAZY", _truth(lazy)),
        ("EXPORT_PARAM_TIME_NORMALIZE", "false"),
        ("EXPORT_PARAM_TIME_SHIFT", "0"),
        ("EXPORT_PARAM_TABLES_TO_EXPORT", ""),
        ("EXPORT_PARAM_TIMES_TO_EXPORT", ""),
    ]
    if schema.at_least("3.24.14"):
        pairs += [
            ("EXPORT_PARAM_EXPORT_TYPE", kind),
            ("EXPORT_PARAM_INCLUDE_JSON", "false"),
            ("EXPORT_PARAM_INCLUDE_BLOBS", "false"),
        ]
    return pairs


def _files(prefix: str, output: str) -> list[tuple[str, str]]:
    return [
        (f"{prefix}{side}_{suffix}", f"report.{ending}")
        for suffix in ("FILE", "PATH", "PATH_ABS")
        for side, ending in (("INPUT", "nsys-rep"), (output, "sqlite"))
    ]


def _host() -> Pairs:
    return [("EXPORT_HOST", "host"), ("EXPORT_USER", "user")]


def _overridden(pairs: Pairs, given: Pairs) -> list[tuple[str, str]]:
    replaced = {_without_process(name) for name, _ in given}
    return [*(pair for pair in pairs if _without_process(pair[0]) not in replaced), *given]


def _without_process(name: str) -> str:
    prefix, _, rest = name.partition(":")
    return rest if prefix.startswith("PROCESS_") and rest else name


def _rows(pairs: Pairs) -> list[Row]:
    return [{"name": name, "value": value} for name, value in pairs]


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _utc_time(utc_ns: int) -> str:
    return datetime.fromtimestamp(utc_ns // 10**9, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
