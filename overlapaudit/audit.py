"""Trace in, audit out: the one place where the steps stand in order."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from overlapaudit import reader
from overlapaudit.analysis import coverage as coverage_of
from overlapaudit.analysis.capture import CaptureStep, recipe
from overlapaudit.analysis.hidden_syncs import hidden_syncs
from overlapaudit.analysis.lanes import DeviceActivity, device_activities
from overlapaudit.analysis.trace_findings import Subject
from overlapaudit.assembly import Part, assemble
from overlapaudit.classify.kernel_rules import KernelRules
from overlapaudit.classify.operations import classify
from overlapaudit.classify.range_rules import RangeRules, classify_ranges
from overlapaudit.graph.event_links import resolve_waits
from overlapaudit.model import document as doc
from overlapaudit.model.errors import UsageError
from overlapaudit.model.findings import Finding
from overlapaudit.model.kinds import Direction, Lane
from overlapaudit.model.progress import Progress, silent
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import InputIdentity, Recording, Trace
from overlapaudit.model.window import WHOLE_TRACE, Window, parse_window
from overlapaudit.rules.policy import DEFAULT_POLICY, Policy
from overlapaudit.spans.inside import time_inside
from overlapaudit.spans.phases import phase_figures


def open_trace(
    path: str | Path, *, rules: str | Path | None = None, progress: Progress = silent
) -> Trace:
    """Open one nsys export: SQLite, parquetdir, arrowdir, or a report where nsys is installed.

    Args:
        path: the file or folder. It is only read, and nothing is written beside it.
        rules: a JSON file of rules for kernels and ranges that go before the bundled ones.
        progress: called with (what, done, of how many) while large tables are read.

    Raises:
        InputError: the input cannot be used.
        UsageError: the rules cannot be used.
    """
    file = None if rules is None else Path(rules)
    kernel_rules, range_rules = KernelRules.load(file), RangeRules.load(file)
    return Trace(
        reader.open_export(Path(path), progress=progress),
        {
            TableName.OPERATIONS: lambda operations: classify(operations, kernel_rules),
            TableName.RANGES: lambda ranges: classify_ranges(ranges, range_rules),
        },
    )


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
    parts = [
        _audit_one(trace, chosen, rank_of)
        for trace, rank_of in zip(several, _ranks(several), strict=True)
    ]
    _check_window(chosen, [device for part in parts for device in part.subject.devices])
    return Audit(assemble(parts, chosen, policy))


def _ranks(traces: Sequence[Trace]) -> list[dict[int, int]]:
    """Number the processes that did GPU work: by MPI rank where all have one, else in order.

    The order is that of the traces, and of the process ids in each.
    """
    processes = [
        trace.operations["process"].unique().drop_nulls().sort().to_list() for trace in traces
    ]
    mpi = [dict(trace.table(TableName.MPI_RANKS).drop_nulls().rows()) for trace in traces]
    known = [
        ranks[process]
        for ranks, several in zip(mpi, processes, strict=True)
        for process in several
        if process in ranks
    ]
    if len(known) == sum(map(len, processes)) == len(set(known)):
        return [
            {process: ranks[process] for process in several}
            for ranks, several in zip(mpi, processes, strict=True)
        ]
    number = count()
    return [{process: next(number) for process in several} for several in processes]


def _audit_one(trace: Trace, window: Window, rank_of: dict[int, int]) -> Part:
    has_calls = TableName.API_CALLS in trace.recording.tables and bool(trace.recording.operations)
    has_ranges = has_calls and TableName.RANGES in trace.recording.tables
    links = resolve_waits(trace)
    return Part(
        subject=Subject(
            trace=trace,
            coverage=coverage_of.measure(trace, links),
            devices=device_activities(trace.operations, window),
            rank_of=rank_of,
        ),
        phases=phase_figures(trace, window) if has_ranges else None,
        time_inside=time_inside(trace) if has_ranges else None,
        hidden_syncs=hidden_syncs(trace, window, links) if has_calls else None,
    )


def _check_window(window: Window, devices: Sequence[DeviceActivity]) -> None:
    timed = [
        (d.first_ns, d.last_ns) for d in devices if d.first_ns is not None and d.last_ns is not None
    ]
    if window is WHOLE_TRACE or not timed or any(device.window_ns > 0 for device in devices):
        return
    first, last = min(start for start, _ in timed), max(end for _, end in timed)
    raise UsageError(
        f"--window: no GPU work between {window.start_ns}ns and {window.end_ns}ns; "
        f"it runs from {first}ns to {last}ns"
    )


class _CallableModule(ModuleType):
    """Lets `overlapaudit.audit(trace)` work after `import overlapaudit.audit` too.

    Importing a submodule binds it in its package, over the function of the same name.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Audit:
        return audit(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
