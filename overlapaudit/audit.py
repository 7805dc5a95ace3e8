"""Trace in, audit out: the one place where the steps stand in order."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from overlapaudit import reader
from overlapaudit.analysis import coverage as coverage_of
from overlapaudit.analysis.capture import CaptureStep, recipe
from overlapaudit.analysis.hidden_syncs import blocked_threads, hidden_syncs
from overlapaudit.analysis.host_gaps import hole_sites
from overlapaudit.analysis.host_holes import host_holes
from overlapaudit.analysis.idle_time import OfDevice, idle_times
from overlapaudit.analysis.lanes import DeviceActivity, device_activities
from overlapaudit.analysis.launch_queue import full_queues
from overlapaudit.analysis.peer_waits import rank_times
from overlapaudit.analysis.thread_calls import thread_calls
from overlapaudit.analysis.trace_findings import Subject
from overlapaudit.assembly import HostTimes, Part, assemble
from overlapaudit.classify.kernel_rules import KernelRules
from overlapaudit.classify.operations import classify
from overlapaudit.classify.range_rules import RangeRules, classify_ranges
from overlapaudit.graph.event_links import resolve_waits
from overlapaudit.memory import give_back
from overlapaudit.model import document as doc
from overlapaudit.model.errors import UsageError
from overlapaudit.model.findings import Finding
from overlapaudit.model.kinds import Direction, Lane
from overlapaudit.model.progress import Progress, silent
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import InputIdentity, Recording, Trace
from overlapaudit.model.window import WHOLE_TRACE, Window, WindowKind, parse_window
from overlapaudit.rules.policy import DEFAULT_POLICY, Policy
from overlapaudit.spans.inside import time_inside
from overlapaudit.spans.iterations import Iterations, iterations
from overlapaudit.spans.launches import by_launch
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
        window: `trace`; `iteration`: judge by iterations alone; or `A..B` with units from the
            session start ("12ms..24ms").
        policy: which findings are reported, and from what size.

    Raises:
        InputError: a trace turns out to be damaged.
        UsageError: the window is none, no device has any time in it, or no iteration is known.
    """
    several = [traces] if isinstance(traces, Trace) else list(traces)
    chosen = parse_window(window) if isinstance(window, str) else window
    times = rank_times(several)
    parts = [
        _audit_one(trace, chosen, policy, rank_of, {} if times is None else times.spinning(number))
        for number, (trace, rank_of) in enumerate(zip(several, _ranks(several), strict=True))
    ]
    _check_window(chosen, [part.subject for part in parts])
    return Audit(assemble(parts, times, chosen, policy))


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


def _audit_one(
    trace: Trace, window: Window, policy: Policy, rank_of: dict[int, int], spinning: OfDevice
) -> Part:
    has_calls = TableName.API_CALLS in trace.recording.tables and bool(trace.recording.operations)
    has_ranges = has_calls and TableName.RANGES in trace.recording.tables
    links = resolve_waits(trace)
    launched = by_launch(trace.operations, trace.api_calls) if has_ranges else None
    everywhere = {} if launched is None else iterations(trace, launched)
    found = everywhere
    if window.start_ns is not None and window.end_ns is not None:
        found = {
            process: one.inside(window.start_ns, window.end_ns) for process, one in found.items()
        }
    subject = Subject(
        trace=trace,
        coverage=coverage_of.measure(trace, links),
        devices=device_activities(trace.operations, window),
        rank_of=rank_of,
        iterations=found,
        window=window,
    )
    inside = has_ranges and not subject.coverage.blind_graph_launches
    give_back()  # what follows runs side by side, and needs most
    # Sums by range and waits of the host need nothing from each other.
    with ThreadPoolExecutor(max_workers=1) as beside:
        phases = None if launched is None else beside.submit(phase_figures, trace, launched, window)
        within = beside.submit(time_inside, trace) if inside else None
        host = _host_times(subject, everywhere, links, spinning, policy) if has_calls else None
        return Part(
            subject=subject,
            phases=None if phases is None else phases.result(),
            time_inside=None if within is None else within.result(),
            host=host,
        )


def _host_times(
    subject: Subject,
    everywhere: Mapping[int, Iterations],
    links: pl.DataFrame,
    spinning: OfDevice,
    policy: Policy,
) -> HostTimes:
    """Find what host threads did; the whole trace is looked at, then cut to the window."""
    trace, window = subject.trace, subject.window
    whole = (
        subject.devices
        if window.start_ns is None
        else device_activities(trace.operations, WHOLE_TRACE)
    )
    whole = [one for one in whole if one.process not in subject.coverage.blind_graph_launches]
    idle = idle_times(trace, whole, spinning)
    calls = thread_calls(trace)
    holes = host_holes(calls)
    blind = subject.coverage.blind_graph_launches
    blocked = blocked_threads(trace, links, idle, _extent(whole), calls, holes, everywhere, blind)
    return HostTimes(
        links=links,
        sites=hidden_syncs(trace, blocked, window, policy.allow_waits),
        # A collective that waits for its peers is no fault of the host.
        holes=hole_sites(
            trace, holes, idle_times(trace, whole, {}) if spinning else idle, blocked, window
        ),
        queues=full_queues(trace, window),
    )


def _extent(devices: Sequence[DeviceActivity]) -> pl.DataFrame:
    """Give when each device works in the whole trace."""
    return pl.DataFrame(
        [
            (one.process, one.device, one.first_ns, one.last_ns)
            for one in devices
            if one.first_ns is not None
        ],
        schema=dict.fromkeys(("process", "device", "first_ns", "last_ns"), pl.Int64),
        orient="row",
    )


def _check_window(window: Window, subjects: Sequence[Subject]) -> None:
    if window.kind is WindowKind.ITERATION:
        if not any(subject.iterations for subject in subjects):
            raise UsageError(
                "--window iteration: no step is marked in this trace; use trace or A..B, or mark "
                "the steps of the engine"
            )
        return
    devices = [device for subject in subjects for device in subject.devices]
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
