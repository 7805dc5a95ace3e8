"""What an export says about itself: versions, clock, settings of the capture."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from overlapaudit.model.kinds import OpKind
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Recording
from overlapaudit.reader import schema

_OPERATION_TABLES = {
    OpKind.KERNEL: schema.KERNEL,
    OpKind.MEMCPY: schema.MEMCPY,
    OpKind.MEMSET: schema.MEMSET,
    OpKind.GRAPH: schema.GRAPH_TRACE,
    OpKind.DECOMPRESS: schema.DECOMPRESS,
}
_MODEL_TABLES = {
    TableName.API_CALLS: schema.RUNTIME,
    TableName.RANGES: schema.NVTX,
    TableName.WAITS: schema.SYNCHRONIZATION,
    TableName.EVENT_RECORDS: schema.CUDA_EVENT,
    TableName.MEMORY_EVENTS: schema.MEMORY,
    TableName.METRICS: schema.METRIC,
    TableName.STREAMS: schema.STREAM,
    TableName.GPUS: schema.GPU,
    TableName.DEVICES: schema.CUDA_DEVICE,
    TableName.PROCESSES: schema.PROCESS,
    TableName.THREADS: schema.THREAD,
    TableName.OVERHEADS: schema.OVERHEAD,
    TableName.PROFILER_OVERHEADS: schema.PROFILER_OVERHEAD,
    TableName.OS_CALLS: schema.OS_RUNTIME,
    TableName.GRAPH_NODES: schema.GRAPH_NODE,
    TableName.DIAGNOSTICS: schema.DIAGNOSTIC,
    TableName.MPI_RANKS: schema.MPI_RANK,
}
# 2026 exports write settings bare, older ones only with this prefix.
_PROCESS_PREFIX = re.compile(r"^PROCESS_\d+:")
_LARGEST_OFFSET_NS = 1 << 61  # 73 years
_VERSION = re.compile(r"\d{4}(?:\.\d+)+")


class Tables(Protocol):
    """A source of raw tables."""

    @property
    def columns_of(self) -> dict[str, list[str]]:
        """Give the column names of each table."""

    def read(self, table: schema.Table) -> pl.DataFrame | None:
        """Read a table; None where there is none."""

    def has_rows(self, table: schema.Table) -> bool:
        """Tell whether a table is there and has a row."""


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """Versions and clock of an export.

    `offset_ns` is what the export added to times of the session's clock: nsys can rewrite them
    to UTC or shift them when it exports.
    """

    tool_version: str | None
    schema_version: str | None
    duration_ns: int | None
    offset_ns: int
    cut_from: str | None


def export_facts(source: Tables) -> ExportFacts:
    """Read what the export says about itself."""
    settings = dict(_pairs(source, schema.EXPORT_SETTINGS))
    offset = _integer(settings.get("EXPORT_PARAM_TIME_SHIFT"))
    if (settings.get("EXPORT_PARAM_TIME_NORMALIZE") or "").lower() in ("true", "1"):
        offset += _first(source, schema.SESSION_START, "utcEpochNs") or 0
    if abs(offset) > _LARGEST_OFFSET_NS:
        offset = 0  # no clock says that
    return ExportFacts(
        tool_version=settings.get("EXPORT_PRODUCT_VERSION"),
        schema_version=settings.get("EXPORT_SCHEMA_VERSION"),
        duration_ns=_first(source, schema.SESSION, "duration"),
        offset_ns=offset,
        cut_from=settings.get("DERIVED_WINDOW_NS")
        or settings.get("EXPORT_PARAM_TIMES_TO_EXPORT")
        or None,
    )


def recording(source: Tables, facts: ExportFacts) -> Recording:
    """Read how the trace was recorded."""
    settings = _capture_settings(source)
    system = dict(_pairs(source, schema.SYSTEM))
    collector = _VERSION.search(system.get("TargetInstallDir") or "")
    cuda = _integer(system.get("CudaDriverVersion"))
    mode = settings.get("CUDA_GRAPH_TRACE_OPTIONS:MODE", [None])[0]
    return Recording(
        operations=frozenset(
            kind for kind, table in _OPERATION_TABLES.items() if _has(source, table)
        ),
        # A full export has every table there is, so only rows show that something was recorded.
        tables=frozenset(name for name, table in _MODEL_TABLES.items() if source.has_rows(table)),
        columns_missing=_columns_missing(source),
        collector_version=collector.group() if collector else None,
        driver_version=system.get("NvDriverVersion") or None,
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        graph_mode=mode.lower() if mode else None,
        memory_usage=_any_true(settings.get("COLLECT_GPU_MEMORY_USAGE")),
        backtraces=source.has_rows(schema.CALLCHAIN),
        cut_from=facts.cut_from,
        traced=tuple(sorted(set(filter(None, settings["CAPTURE_EVENT_TYPE"]))))
        if "CAPTURE_EVENT_TYPE" in settings
        else None,
        began_utc_ns=_first(source, schema.SESSION_START, "utcEpochNs"),
    )


def _columns_missing(source: Tables) -> frozenset[str]:
    """Name the columns without which rows of GPU work say nothing, where a table lacks them."""
    return frozenset(
        f"{name}.{column}"
        for table in schema.GPU_WORK
        if (name := schema.physical_name(table, source.columns_of)) is not None
        for column in schema.ESSENTIAL
        if column not in schema.present_columns(table, source.columns_of[name])
    )


def _capture_settings(source: Tables) -> dict[str, list[str | None]]:
    """Collect the settings; names repeat, so each has a list, bare names before prefixed ones."""
    found: dict[str, list[str | None]] = {}
    pairs = list(_pairs(source, schema.CAPTURE_SETTINGS))
    for name, value in sorted(pairs, key=lambda pair: bool(_PROCESS_PREFIX.match(pair[0]))):
        found.setdefault(_PROCESS_PREFIX.sub("", name), []).append(value)
    return found


def _any_true(values: list[str | None] | None) -> bool | None:
    if values is None:
        return None
    return any((value or "").lower() == "true" for value in values)


def _pairs(source: Tables, table: schema.Table) -> list[tuple[str, str | None]]:
    frame = source.read(table)
    if frame is None:
        return []
    return [(name, value) for name, value in frame.rows() if name is not None]


def _first(source: Tables, table: schema.Table, column: str) -> int | None:
    frame = source.read(table)
    if frame is None or frame.is_empty():
        return None
    value: int | None = frame[column][0]
    return value


def _has(source: Tables, table: schema.Table) -> bool:
    return schema.physical_name(table, source.columns_of) is not None


def _integer(text: str | None) -> int:
    return int(text) if text and re.fullmatch(r"[+-]?\d{1,18}", text) else 0
