"""Findings about the trace itself: OA001 to OA008."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.coverage import TraceCoverage
from overlapaudit.analysis.lanes import DeviceActivity, has_time
from overlapaudit.analysis.price import Scale
from overlapaudit.model.findings import EvidenceValue, Finding, Where
from overlapaudit.model.kinds import LAUNCHING_KINDS, Confidence, Lane, OpKind, Severity
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import Window, WindowKind
from overlapaudit.rules.catalogue import RULES
from overlapaudit.rules.policy import Policy
from overlapaudit.spans.iterations import Iterations

_NAMES_SHOWN = 5
_THREAD_BITS = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class Subject:
    """One trace with what was measured of it.

    Attributes:
        trace: the trace.
        coverage: of the whole trace.
        devices: what each device did in the window.
        rank_of: the rank of each process.
        iterations: of each process that has any, in the window.
        window: what is looked at.
    """

    trace: Trace
    coverage: TraceCoverage
    devices: Sequence[DeviceActivity]
    rank_of: Mapping[int, int]
    iterations: Mapping[int, Iterations]
    window: Window

    def scale(self, *of_process: DeviceActivity) -> Scale:
        """Give what a cost on devices of one process is weighed against."""
        return Scale(
            window_ns=sum(activity.window_ns for activity in of_process),
            devices=len(of_process),
            iterations=self.iterations.get(of_process[0].process) if of_process else None,
            iterations_alone=self.window.kind is WindowKind.ITERATION,
        )

    def whole(self) -> Where:
        """Say which trace: by its process, where it has but one."""
        if len(self.rank_of) != 1:
            return Where()
        ((process, rank),) = self.rank_of.items()
        return Where(process=process, rank=rank)

    def place(self, activity: DeviceActivity) -> Where:
        """Say which device of which rank, and in which window."""
        return Where(
            process=activity.process,
            rank=self.rank_of.get(activity.process),
            device=activity.device,
            start_ns=activity.start_ns,
            end_ns=activity.end_ns,
        )


def findings(subject: Subject, policy: Policy) -> list[Finding]:
    """Judge one trace; of every finding only what the policy reports."""
    found: list[Finding] = []
    for judge in (
        _no_gpu_work,
        _opaque_graphs,
        _blind_graphs,
        _unresolved_events,
        _clock_violations,
        _truncated,
        _said_by_profiler,
        _perturbing_settings,
        _profiler_overhead,
        _short_kernels,
        _processes_without_work,
        _unclassified,
    ):
        found += judge(subject, policy)
    return [finding for finding in found if policy.reports(finding.code)]


def _finding(
    code: str,
    severity: Severity,
    where: Where,
    evidence: Mapping[str, EvidenceValue],
    next_step: str,
    confidence: Confidence = Confidence.PROVEN,
) -> Finding:
    rule = RULES[code]
    return Finding(
        code=code,
        slug=rule.slug,
        severity=severity,
        confidence=confidence,
        where=where,
        evidence=evidence,
        layer=rule.layer,
        tuning_step=rule.tuning_step,
        next_step=next_step,
    )


def _no_gpu_work(subject: Subject, _: Policy) -> Iterator[Finding]:
    if subject.trace.operations.height:
        return
    calls = subject.trace.api_calls
    yield _finding(
        "OA001",
        Severity.ERROR,
        Where(),
        {
            "gpu_tables": sorted(kind.value for kind in subject.trace.recording.operations),
            "api_calls": calls.height if _recorded(subject, TableName.API_CALLS) else None,
            "launches": subject.coverage.launches,
        },
        "record with --trace=cuda; if the workers are forked, start them with spawn or add "
        "--trace-fork-before-exec=true; check that the capture range covers GPU work",
    )


def _opaque_graphs(subject: Subject, policy: Policy) -> Iterator[Finding]:
    for activity in subject.devices:
        opaque = activity.lanes[Lane.GRAPH].length_ns
        if opaque == 0:
            continue
        warns = opaque >= policy.threshold("OA002", "warning_share") * activity.window_ns
        yield _finding(
            "OA002",
            Severity.WARNING if warns else Severity.INFO,
            subject.place(activity),
            {
                "opaque_ns": opaque,
                "window_ns": activity.window_ns,
                "replays": subject.trace.operations.filter(
                    (pl.col("kind") == OpKind.GRAPH.value)
                    & (pl.col("process") == activity.process)
                    & (pl.col("device") == activity.device)
                    & (pl.col("end_ns") > activity.start_ns)
                    & (pl.col("start_ns") < activity.end_ns)
                ).height,
            },
            "record with --cuda-graph-trace=node (it costs time per node: compare step times "
            "with an unprofiled run)",
        )


def _blind_graphs(subject: Subject, _: Policy) -> Iterator[Finding]:
    for launches, severity, said in (
        (subject.coverage.blind_graph_launches, Severity.WARNING, "too many to know when it idled"),
        (subject.coverage.lost_graph_launches, Severity.INFO, "few"),
    ):
        for process, count in launches.items():
            yield _finding(
                "OA002",
                severity,
                Where(process=process, rank=subject.rank_of.get(process)),
                {"graph_launches_without_gpu_rows": count, "of_the_process": said},
                "record with --cuda-graph-trace=node; exports before 2024 hold no row for a graph "
                "that was recorded as a whole",
            )


def _unresolved_events(subject: Subject, policy: Policy) -> Iterator[Finding]:
    waits = subject.coverage.waits
    if waits is None or waits.inferred + waits.unresolved == 0:
        return
    total = waits.exact + waits.inferred + waits.unresolved
    warns = waits.unresolved > 0 and (
        waits.unresolved >= policy.threshold("OA003", "warning_share") * total
    )
    yield _finding(
        "OA003",
        Severity.WARNING if warns else Severity.INFO,
        subject.whole(),
        {
            "waits": total,
            "exact": waits.exact,
            "inferred": waits.inferred,
            "unresolved": waits.unresolved,
            **{f"by_{method}": count for method, count in waits.by_method.items()},
        },
        "export to SQLite with a current nsys; if event rows are still missing, record a second "
        "run with --cuda-event-trace=true (driver of CUDA 12.8 or later)",
    )


def _clock_violations(subject: Subject, policy: Policy) -> Iterator[Finding]:
    count, total = subject.coverage.clock_violations, subject.coverage.operations
    if not count or not total:
        return
    grave = count >= policy.threshold("OA004", "error_share") * total
    yield _finding(
        "OA004",
        Severity.ERROR if grave else Severity.WARNING,
        subject.whole(),
        {"operations_before_their_launch": count, "operations": total},
        "do not trust times that relate the host to the GPU in this trace; record again, with "
        "the driver and nsys of one generation",
    )


def _truncated(subject: Subject, policy: Policy) -> Iterator[Finding]:
    coverage, cut = subject.coverage, subject.trace.recording.cut_from
    if coverage.operations is None or coverage.operations_with_launch is None:
        return
    orphans = coverage.operations - coverage.operations_with_launch
    lost = coverage.lost_launches or 0
    if not cut and not orphans and not lost:
        return
    warns = orphans > 0 and orphans >= (
        policy.threshold("OA005", "warning_share") * coverage.operations
    )
    yield _finding(
        "OA005",
        Severity.WARNING if warns else Severity.INFO,
        subject.whole(),
        {
            "operations": coverage.operations,
            "operations_without_launch": orphans,
            "launches_without_work": lost,
            "of_these_after_the_last_with_work": coverage.late_launches,
            "cut_by_a_tool": bool(cut),
        },
        "first and last steps are incomplete: leave them out of averages, or capture a longer "
        "range",
        Confidence.PROVEN if cut else Confidence.INFERRED,
    )


# What nsys writes when it may have lost something, and the same in words that name nobody.
_COMPLAINTS = (
    (r"Not all CUDA events might have been collected", "not all CUDA events may be there"),
    (r"Not all NVTX events might have been collected", "not all NVTX ranges may be there"),
    (
        r"CUDA profiling might have not been started correctly",
        "CUDA tracing may not have started in some process",
    ),
    (r"(?i)\b(?:dropped|lost|overflow\w*)\b", "events were dropped"),
    (r"CUDA hardware tracing is not supported", "hardware tracing was not supported"),
)
_A_WARNING, _AN_ERROR = 2, 3


def _said_by_profiler(subject: Subject, _: Policy) -> Iterator[Finding]:
    """Pass on the profiler's own warnings about the data, without their texts: those hold paths."""
    said = subject.trace.table(TableName.DIAGNOSTICS).filter(
        pl.col("severity").is_in([_A_WARNING, _AN_ERROR])
    )
    if said.is_empty():
        return
    texts = said["text"].fill_null("")
    meant = [words for pattern, words in _COMPLAINTS if texts.str.contains(pattern).any()]
    known = pl.any_horizontal(pl.lit(texts).str.contains(p) for p, _ in _COMPLAINTS)
    others = said.filter(~known & (pl.col("severity") == _AN_ERROR)).height
    if not meant and not others:
        return
    yield _finding(
        "OA005",
        Severity.INFO,
        subject.whole(),
        {"profiler_says": meant, "other_errors_of_the_profiler": others},
        "read the diagnostics of the report in Nsight Systems before trusting what is absent",
        Confidence.POSSIBLE,
    )


def _perturbing_settings(subject: Subject, _: Policy) -> Iterator[Finding]:
    recording = subject.trace.recording
    settings = [
        name
        for name, on in (
            ("cuda-event-trace", _has_event_times(subject)),
            ("cuda-memory-usage", recording.memory_usage or _has_memory_events(subject)),
            ("cudabacktrace", recording.backtraces),
        )
        if on
    ]
    if settings:
        yield _finding(
            "OA006",
            Severity.WARNING,
            subject.whole(),
            {"settings": settings},
            "use this trace for what it was recorded for, and take times and overlap from a run "
            f"without {', '.join('--' + name for name in settings)}",
        )


def _profiler_overhead(subject: Subject, policy: Policy) -> Iterator[Finding]:
    overheads = subject.trace.table(TableName.PROFILER_OVERHEADS).filter(has_time())
    process = pl.col("thread") - (pl.col("thread") & _THREAD_BITS)
    for activity in subject.devices:
        mine = overheads.filter(process == activity.process)
        covered = intervals.union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        inside = intervals.clip(covered, activity.start_ns, activity.end_ns).length_ns
        if inside == 0 or inside < policy.threshold("OA006", "info_share") * activity.window_ns:
            continue
        yield _finding(
            "OA006",
            Severity.INFO,
            subject.place(activity),
            {"profiler_overhead_ns": inside, "window_ns": activity.window_ns},
            "host threads stood still in the profiler for this long; compare step times with an "
            "unprofiled run",
        )


# Recording a kernel costs the host some microseconds: shorter kernels show it most.
_SHORT_KERNEL_NS = 10_000
_FEWEST_KERNELS = 100


def _short_kernels(subject: Subject, _: Policy) -> Iterator[Finding]:
    lasted = subject.trace.operations.select(
        "kind", "start_ns", ns=pl.col("end_ns") - pl.col("start_ns")
    ).filter((pl.col("kind") == OpKind.KERNEL.value) & (pl.col("ns") >= 0))["ns"]
    if len(lasted) < _FEWEST_KERNELS:
        return
    median = int(np.median(lasted.to_numpy()))
    if median < _SHORT_KERNEL_NS:
        yield _finding(
            "OA006",
            Severity.INFO,
            subject.whole(),
            {"median_kernel_ns": median, "kernels": len(lasted)},
            "with kernels this short the cost of tracing each launch weighs: compare the step "
            "time with an unprofiled run before calling it launch-bound",
            Confidence.POSSIBLE,
        )


def _processes_without_work(subject: Subject, _: Policy) -> Iterator[Finding]:
    processes = subject.trace.operations["process"]
    if processes.is_empty() or processes.null_count():
        return  # OA001 says it, or nobody knows whose the rest is
    working = processes.unique()
    launching = pl.col("kind").is_in(LAUNCHING_KINDS) & (pl.col("returned").fill_null(0) == 0)
    silent = (
        subject.trace.api_calls.filter(~pl.col("process").is_in(working.implode()))
        .group_by("process")
        .agg(pl.len().alias("calls"), launching.sum().alias("launches"))
        .sort("process")
    )
    for process, calls, launches in silent.rows():
        yield _finding(
            "OA007",
            Severity.WARNING if launches else Severity.INFO,
            Where(process=process),
            {"api_calls": calls, "launches": launches},
            "start workers with spawn instead of fork or add --trace-fork-before-exec=true, and "
            "let no other CUPTI client (torch profiler, DCGM) run in the process"
            if launches
            else "nothing to do if this process only looks at the GPU",
            Confidence.PROVEN if launches else Confidence.POSSIBLE,
        )


def _unclassified(subject: Subject, policy: Policy) -> Iterator[Finding]:
    for activity in subject.devices:
        if activity.unclassified_ns == 0:
            continue
        warns = activity.unclassified_ns >= (
            policy.threshold("OA008", "warning_share") * activity.kernel_ns
        )
        yield _finding(
            "OA008",
            Severity.WARNING if warns else Severity.INFO,
            subject.place(activity),
            {
                "unclassified_ns": activity.unclassified_ns,
                "kernel_ns": activity.kernel_ns,
                "longest": _longest_unclassified(subject.trace, activity),
            },
            "they count as compute; if some communicate, name them in a rules file and pass it "
            "with --rules",
        )


def _longest_unclassified(trace: Trace, activity: DeviceActivity) -> list[str]:
    """Name the kernels without class that took most time (sums over the device's window)."""
    rows = trace.operations.filter(
        (pl.col("kind") == OpKind.KERNEL.value)
        & pl.col("class").is_null()
        & (pl.col("process") == activity.process)
        & (pl.col("device") == activity.device)
        & has_time()
    ).select(
        pl.col("name").cast(pl.String),
        (
            pl.min_horizontal("end_ns", pl.lit(activity.end_ns))
            - pl.max_horizontal("start_ns", pl.lit(activity.start_ns))
        ).alias("ns"),
    )
    longest = (
        rows.filter(pl.col("ns") > 0)
        .group_by("name")
        .agg(pl.col("ns").sum())
        .sort(["ns", "name"], descending=[True, False])
        .head(_NAMES_SHOWN)
    )
    return [name if name is not None else "(no name)" for name in longest["name"].to_list()]


def _recorded(subject: Subject, table: TableName) -> bool:
    return table in subject.trace.recording.tables


def _has_event_times(subject: Subject) -> bool:
    return bool(subject.trace.event_records["completed_ns"].is_not_null().any())


def _has_memory_events(subject: Subject) -> bool:
    if not _recorded(subject, TableName.MEMORY_EVENTS):
        return False
    return not subject.trace.memory_events.is_empty()
