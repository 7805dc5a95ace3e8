"""What a trace cannot say, why, and the nsys options that would have recorded it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from overlapaudit.analysis.coverage import TraceCoverage
from overlapaudit.model.document import NotRecorded
from overlapaudit.model.kinds import ApiKind, OpKind, RangeKind
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Recording, Trace

# Parts of the JSON that belong to analyses which this version does not make.
_NOT_COMPUTED = (
    "critical_path",
    "contention",
    "hidden_syncs.saving_ns",
    "pairs",
    "mechanisms",
    "requests",
)
_GRAPH_TRACE = "--cuda-graph-trace=node"


def gaps(trace: Trace, coverage: TraceCoverage) -> list[NotRecorded]:
    """List what this trace lacks, most consequential first."""
    recording = trace.recording
    return [
        *_schema(trace),
        *_gpu_work(trace),
        *_graphs(trace, coverage),
        *_host(trace),
        *_extras(recording),
    ]


def not_computed() -> list[NotRecorded]:
    """List the parts of the document that this version leaves null whatever the trace holds."""
    return [NotRecorded(what, "this version does not compute it", None) for what in _NOT_COMPUTED]


def version_of(recording: Recording) -> tuple[int, ...]:
    """Give the version of the nsys that recorded, () where it is not known."""
    text = recording.collector_version or ""
    return tuple(int(part) for part in re.findall(r"\d+", text))


def gpu_metrics_option(version: tuple[int, ...]) -> str:
    """Give the option that samples GPU metrics; it was renamed in 2024."""
    if version and version < (2024,):
        return "--gpu-metrics-device=all"
    return "--gpu-metrics-devices=all"


# Major numbers of the export's schema that this version was made for.
_KNOWN_SCHEMAS = ("2", "3")


def _schema(trace: Trace) -> Iterator[NotRecorded]:
    version = trace.identity.schema_version
    if version is not None and version.partition(".")[0] not in _KNOWN_SCHEMAS:
        yield NotRecorded(
            "what only newer exports hold",
            f"the export's schema {version} is not known here (2 and 3 are): tables and columns "
            "that were renamed read as absent",
            "a newer overlapaudit, or an export by an nsys of 2022 to 2026",
        )


def _gpu_work(trace: Trace) -> Iterator[NotRecorded]:
    recording = trace.recording
    if not recording.operations:
        yield NotRecorded("devices", "no table of GPU work is in the export", "--trace=cuda")
    elif OpKind.KERNEL not in recording.operations:
        yield NotRecorded(
            "kernels", "no kernel table: none ran, or kernels were not traced", "--trace=cuda"
        )
    timeless = trace.operations["start_ns"].null_count()
    if timeless:
        yield NotRecorded(
            "devices",
            f"{timeless:,} operations have no time that can be, and count in no lane",
            None,
        )
    for column in sorted(recording.columns_missing):
        yield NotRecorded(
            "devices", f"the export has no column {column}", "a complete export of the report"
        )


def _graphs(trace: Trace, coverage: TraceCoverage) -> Iterator[NotRecorded]:
    if coverage.blind_graph_launches:
        yield NotRecorded(
            "devices.busy_ns, devices.idle_ns, devices.lanes.graph, devices.exposed",
            "graph launches left no GPU rows in this export, so their time is unknown, not idle",
            _GRAPH_TRACE,
        )
        yield NotRecorded(
            "coverage.gpu_ns_in_ranges_share, hidden_syncs.gpu_idle_ns, spans.busy_ns of the same",
            "graph launches left no GPU rows: spans hold what was recorded, waits have no price",
            _GRAPH_TRACE,
        )
    if (trace.operations["kind"] == OpKind.GRAPH.value).any():
        yield NotRecorded(
            "work inside CUDA graphs",
            "graphs were recorded as whole replays; overlap inside them cannot be measured "
            "(tracing nodes costs time for each, and some drivers fail with it)",
            _GRAPH_TRACE,
        )


def _host(trace: Trace) -> Iterator[NotRecorded]:
    recording = trace.recording
    if TableName.API_CALLS not in recording.tables:
        yield NotRecorded("CUDA API calls", "no row of one is in the export", "--trace=cuda")
    if TableName.RANGES not in recording.tables:
        asked = recording.traced is not None and "NvtxEvents" in recording.traced
        yield NotRecorded(
            "NVTX ranges",
            "NVTX was traced, but the program set no range" if asked else "the export holds none",
            "markers in the program" if asked else "--trace=cuda,nvtx",
        )
    unclosed = trace.ranges.filter(
        pl.col("level").is_not_null()
        & pl.col("end_ns").is_null()
        & (pl.col("kind") != RangeKind.MARK.value)
    ).height
    if unclosed:
        yield NotRecorded(
            "spans.host_ns",
            f"{unclosed:,} ranges were not closed within the trace: their work counts until the "
            "next of their kind, their host time not at all",
            None,
        )
    no_calls = TableName.API_CALLS not in recording.tables or not recording.operations
    if TableName.RANGES not in recording.tables or no_calls:
        for what in ("spans", "coverage.gpu_ns_in_ranges_share"):
            yield NotRecorded(
                what, "needs GPU work, the API calls that launched it, and NVTX ranges", None
            )
    if no_calls:
        yield NotRecorded("hidden_syncs", "needs GPU work and API calls", None)
    if trace.event_records.is_empty() and _records_events(trace):
        yield NotRecorded(
            "event records",
            "the program recorded CUDA events, but the export has no row for them, so the "
            "stream of a record is inferred",
            "--cuda-event-trace=true, in a run of its own"
            if version_of(recording) >= (2025,)
            else "an nsys of 2025 or later with --cuda-event-trace=true, in a run of its own",
        )


def _extras(recording: Recording) -> Iterator[NotRecorded]:
    if TableName.METRICS not in recording.tables:
        yield NotRecorded(
            "GPU metrics (SM, memory and link use)",
            "no metrics were sampled",
            gpu_metrics_option(version_of(recording)),
        )
    if TableName.MEMORY_EVENTS not in recording.tables:
        yield NotRecorded(
            "device memory use",
            "allocations were not recorded",
            "--cuda-memory-usage=true, in a run of its own: it slows the program down",
        )


def _records_events(trace: Trace) -> bool:
    return bool((trace.api_calls["kind"] == ApiKind.EVENT_RECORD.value).any())
