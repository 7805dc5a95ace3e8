"""Trace in, audit out: the one place where the steps stand in order."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from overlapaudit import reader
from overlapaudit.analysis import coverage as coverage_of
from overlapaudit.analysis import gaps, trace_findings
from overlapaudit.analysis.capture import CaptureStep, recipe
from overlapaudit.analysis.coverage import TraceCoverage, WaitResolution
from overlapaudit.analysis.lanes import DeviceActivity, device_activities
from overlapaudit.classify.kernel_rules import KernelRules
from overlapaudit.classify.operations import classify
from overlapaudit.model import document as doc
from overlapaudit.model.errors import UsageError
from overlapaudit.model.findings import Finding
from overlapaudit.model.kinds import Direction, Lane, Severity
from overlapaudit.model.progress import Progress, silent
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import InputIdentity, Recording, Trace
from overlapaudit.model.window import WHOLE_TRACE, Window, parse_window
from overlapaudit.rules.policy import DEFAULT_POLICY, Policy
from overlapaudit.version import __version__

_BY_WEIGHT = list(reversed(Severity))


def open_trace(
    path: str | Path, *, rules: str | Path | None = None, progress: Progress = silent
) -> Trace:
    """Open one nsys export: SQLite, parquetdir, arrowdir, or a report where nsys is installed.

    Args:
        path: the file or folder. It is only read, and nothing is written beside it.
        rules: a JSON file of kernel rules that go before the bundled ones.
        progress: called with (what, done, of how many) while large tables are read.

    Raises:
        InputError: the input cannot be used.
        UsageError: the rules cannot be used.
    """
    kernel_rules = KernelRules.load(None if rules is None else Path(rules))
    export = reader.open_export(Path(path), progress=progress)
    return Trace(export, lambda operations: classify(operations, kernel_rules))


def find_traces(paths: Sequence[str | Path]) -> list[Path]:
    """Give the exports that the paths stand for; a folder of ranks stands for each of them.

    Raises:
        InputError: a path has none.
    """
    return [found for path in paths for found in reader.find_inputs(Path(path))]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one input is, how it was recorded, and how to record what it lacks."""

    identity: InputIdentity
    recording: Recording
    recipe: tuple[CaptureStep, ...]


def recordings(traces: Sequence[Trace]) -> list[Recorded]:
    """Say of each trace how it was recorded and how to record it better."""
    return [
        Recorded(trace.identity, trace.recording, tuple(recipe(trace.recording)))
        for trace in traces
    ]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit: `document` is what the JSON holds, the rest are views of it."""

    document: doc.AuditDocument

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is worth knowing, heaviest first."""
        return self.document.findings

    @property
    def devices(self) -> pl.DataFrame:
        """One row for each device: window, busy and idle time, lanes, copies (ns)."""
        rows = [
            {
                "process": device.process,
                "rank": device.rank,
                "device": device.device,
                "name": device.name,
                "window_ns": device.window_ns,
                "busy_ns": device.busy_ns,
                "idle_ns": device.idle_ns,
                **{lane.value: getattr(device.lanes, lane.value) for lane in Lane},
                **{way.value: getattr(device.copies, way.value) for way in Direction},
            }
            for device in self.document.devices or ()
        ]
        return pl.DataFrame(rows, schema=_DEVICE_FRAME)

    @property
    def overlap(self) -> pl.DataFrame:
        """One row for each device and pair of lanes or copy directions (ns)."""
        rows = [
            {
                "process": device.process,
                "rank": device.rank,
                "device": device.device,
                **{name: getattr(pair, name) for name in _PAIR_FRAME},
            }
            for device in self.document.devices or ()
            for pair in device.overlap
        ]
        keys = {name: _DEVICE_FRAME[name] for name in ("process", "rank", "device")}
        return pl.DataFrame(rows, schema={**keys, **_PAIR_FRAME})

    def to_dict(self) -> dict[str, Any]:
        """Give the document as plain dicts and lists."""
        return self.document.to_dict()

    def to_json(self) -> str:
        """Give the document as JSON text, the same bytes for the same input."""
        return self.document.to_json()

    def _repr_html_(self) -> str:
        files = ", ".join(html.escape(one.file) for one in self.document.inputs)
        said = "".join(
            f"<li><b>{finding.code}</b> {finding.severity}: {html.escape(finding.next_step)}</li>"
            for finding in self.findings
        )
        return f"<p>Audit of {files}</p>{self.devices._repr_html_()}<ul>{said}</ul>"


_DEVICE_FRAME: dict[str, pl.DataType] = {
    "process": pl.Int64(),
    "rank": pl.Int64(),
    "device": pl.Int64(),
    "name": pl.String(),
    "window_ns": pl.Int64(),
    "busy_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    **{lane.value: pl.Int64() for lane in Lane},
    **{way.value: pl.Int64() for way in Direction},
}
_PAIR_FRAME: dict[str, pl.DataType] = {
    "a": pl.String(),
    "b": pl.String(),
    "a_ns": pl.Int64(),
    "b_ns": pl.Int64(),
    "overlap_ns": pl.Int64(),
    "exposed_a_ns": pl.Int64(),
    "exposed_b_ns": pl.Int64(),
}


def audit(
    traces: Trace | Sequence[Trace],
    *,
    window: Window | str = WHOLE_TRACE,
    policy: Policy = DEFAULT_POLICY,
) -> Audit:
    """Audit one trace, or several that are the ranks of one run.

    Args:
        traces: from `open_trace`.
        window: `trace`, or `A..B` with units from the session start ("12ms..24ms").
        policy: which findings are reported, and from what size.

    Raises:
        InputError: a trace turns out to be damaged.
        UsageError: the window is none, or no device has any time in it.
    """
    several = [traces] if isinstance(traces, Trace) else list(traces)
    chosen = parse_window(window) if isinstance(window, str) else window
    ranks = _Ranks()
    parts = [_audit_one(trace, chosen, ranks) for trace in several]
    _check_window(chosen, [device for part in parts for device in part.devices])
    return Audit(_document(parts, chosen, policy))


@dataclass(frozen=True, slots=True)
class _Part:
    """One trace of the run, measured."""

    trace: Trace
    coverage: TraceCoverage
    devices: list[DeviceActivity]
    rank_of: dict[int, int]

    @property
    def subject(self) -> trace_findings.Subject:
        return trace_findings.Subject(self.trace, self.coverage, self.devices, self.rank_of)


class _Ranks:
    """Numbers the processes that did GPU work, over all traces of a run."""

    def __init__(self) -> None:
        self._next = 0

    def of(self, trace: Trace) -> dict[int, int]:
        """Number the processes of the next trace: by MPI rank where recorded, else by id."""
        processes = trace.operations["process"].unique().drop_nulls().sort().to_list()
        mpi = dict(trace.table(TableName.MPI_RANKS).drop_nulls().rows())
        processes.sort(key=lambda process: (mpi.get(process, len(mpi)), process))
        numbered = {process: self._next + index for index, process in enumerate(processes)}
        self._next += len(processes)
        return numbered


def _audit_one(trace: Trace, window: Window, ranks: _Ranks) -> _Part:
    measured = coverage_of.measure(trace)
    return _Part(
        trace=trace,
        coverage=measured,
        devices=device_activities(trace.operations, window),
        rank_of=ranks.of(trace),
    )


def _check_window(window: Window, devices: Sequence[DeviceActivity]) -> None:
    timed = [
        (d.first_ns, d.last_ns) for d in devices if d.first_ns is not None and d.last_ns is not None
    ]
    if window is WHOLE_TRACE or not timed or any(device.window_ns > 0 for device in devices):
        return
    first, last = min(start for start, _ in timed), max(end for _, end in timed)
    raise UsageError(
        f"--window: no GPU work between {window.start_ns} ns and {window.end_ns} ns; "
        f"it runs from {first}ns to {last}ns"
    )


def _document(parts: Sequence[_Part], window: Window, policy: Policy) -> doc.AuditDocument:
    found = [one for part in parts for one in trace_findings.findings(part.subject, policy)]
    found.sort(key=lambda finding: (_BY_WEIGHT.index(finding.severity), finding.code))
    traced = any(part.trace.recording.operations for part in parts)
    devices = sorted(
        (_device(part, activity) for part in parts for activity in part.devices),
        key=lambda device: (device.rank, device.device),
    )
    return doc.AuditDocument(
        format_version=doc.FORMAT_VERSION,
        tool=doc.Tool("overlapaudit", __version__),
        inputs=tuple(_input(part.trace) for part in parts),
        window=doc.AuditedWindow(window.kind.value, window.start_ns, window.end_ns),
        coverage=_coverage(parts),
        devices=tuple(devices) if traced else None,
        findings=tuple(found),
    )


def _input(trace: Trace) -> doc.Input:
    identity = trace.identity
    return doc.Input(
        identity.file,
        identity.sha256,
        identity.tool,
        identity.tool_version,
        identity.schema_version,
        identity.duration_ns,
    )


def _device(part: _Part, activity: DeviceActivity) -> doc.Device:
    blind = activity.process in part.coverage.blind_graph_launches
    lanes = {lane.value: covered.length_ns for lane, covered in activity.lanes.items()}
    exposed = {lane.value: ns for lane, ns in activity.exposed_ns.items()}
    unknown = {Lane.GRAPH.value: None} if blind else {}
    return doc.Device(
        process=activity.process,
        rank=part.rank_of[activity.process],
        device=activity.device,
        name=_gpu_name(part.trace, activity),
        window_ns=activity.window_ns,
        busy_ns=None if blind else activity.busy.length_ns,
        idle_ns=None if blind else activity.idle_ns,
        lanes=doc.Lanes(**{**lanes, **unknown}),
        exposed=doc.Lanes(**{**exposed, **unknown}),
        copies=doc.Copies(**{way.value: c.length_ns for way, c in activity.copies.items()}),
        overlap=tuple(
            doc.Overlap(
                pair.a, pair.b, pair.a_ns, pair.b_ns,
                pair.overlap_ns, pair.exposed_a_ns, pair.exposed_b_ns,
            )
            for pair in activity.overlap
        ),
        unclassified_ns=activity.unclassified_ns,
    )  # fmt: skip


def _gpu_name(trace: Trace, activity: DeviceActivity) -> str | None:
    """Name a device's GPU, if the export leaves no doubt which it is.

    The ordinal is the process' own: with CUDA_VISIBLE_DEVICES each rank may call its GPU 0. So
    without the map from (process, ordinal) to GPU only a machine of equal GPUs has a sure answer.
    """
    gpus = trace.table(TableName.GPUS)
    process_id = activity.process >> 24 & 0xFFFFFF
    mapped = trace.table(TableName.DEVICES).filter(
        (pl.col("process_id") == process_id) & (pl.col("device") == activity.device)
    )
    if not mapped.is_empty():
        gpus = gpus.filter(pl.col("gpu").is_in(mapped["gpu"].implode()))
    names = gpus["name"].drop_nulls().unique().to_list()
    return names[0] if len(names) == 1 else None


def _coverage(parts: Sequence[_Part]) -> doc.Coverage:
    # A report without GPU work (of a launcher, say) has nothing to add up.
    measured = [part.coverage for part in parts if part.coverage.operations is not None]
    lacking = [gap for part in parts for gap in gaps.gaps(part.trace, part.coverage)]
    lacking += [gap for part in parts for gap in _unnamed_gpus(part)]
    return doc.Coverage(
        operations=_sum(one.operations for one in measured),
        operations_with_launch=_sum(one.operations_with_launch for one in measured),
        launches=_sum(one.launches for one in measured),
        launches_with_operation=_sum(one.launches_with_operation for one in measured),
        gpu_ns_in_ranges_share=None,
        waits=_wait_counts([part.coverage.waits for part in parts]),
        opaque_graph_ns=_sum(
            _opaque_ns(part) for part in parts if part.coverage.operations is not None
        ),
        clock_violations=_sum(one.clock_violations for one in measured),
        not_recorded=tuple(dict.fromkeys(lacking + gaps.not_computed())),
    )


def _wait_counts(resolved: Sequence[WaitResolution | None]) -> doc.WaitCounts | None:
    known = [one for one in resolved if one is not None]
    if not known:
        return None
    return doc.WaitCounts(
        exact=sum(one.exact for one in known),
        inferred=sum(one.inferred for one in known),
        unresolved=sum(one.unresolved for one in known),
    )


def _opaque_ns(part: _Part) -> int | None:
    """Sum the opaque graph time of the whole trace, whatever the window."""
    if not part.trace.recording.operations or part.coverage.blind_graph_launches:
        return None
    whole = device_activities(
        part.trace.operations.filter(pl.col("lane") == Lane.GRAPH.value), WHOLE_TRACE
    )
    return sum(device.busy.length_ns for device in whole)


def _unnamed_gpus(part: _Part) -> list[doc.NotRecorded]:
    if all(_gpu_name(part.trace, device) for device in part.devices):
        return []
    reason = (
        "the export does not say which of the machine's GPUs each process used"
        if not part.trace.table(TableName.GPUS).is_empty()
        else "the export does not list the machine's GPUs"
    )
    return [doc.NotRecorded("devices.name", reason, "an export by nsys 2025.3 or later")]


def _sum(values: Iterable[int | None]) -> int | None:
    """Add up; None where a part is not known, since the rest is not the whole."""
    parts = list(values)
    known = [value for value in parts if value is not None]
    return sum(known) if parts and len(known) == len(parts) else None


class _CallableModule(ModuleType):
    """Lets `overlapaudit.audit(trace)` work after `import overlapaudit.audit` too.

    Importing a submodule binds it in its package, over the function of the same name.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Audit:
        return audit(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
