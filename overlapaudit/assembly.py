"""Put what was measured of each trace together into the document that is shown and written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis import (
    gaps,
    host_findings,
    rank_findings,
    stream_findings,
    trace_findings,
)
from overlapaudit.analysis.coverage import WaitResolution
from overlapaudit.analysis.default_stream import Barrier
from overlapaudit.analysis.hidden_syncs import WaitSite
from overlapaudit.analysis.host_gaps import HoleSite
from overlapaudit.analysis.lanes import DeviceActivity, device_activities
from overlapaudit.analysis.launch_queue import FullQueue
from overlapaudit.analysis.peer_waits import RankTimes
from overlapaudit.analysis.ranks import ranks_of
from overlapaudit.analysis.trace_findings import Subject
from overlapaudit.model import document as doc
from overlapaudit.model.findings import Finding
from overlapaudit.model.kinds import Lane, Severity
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import WHOLE_TRACE, Window
from overlapaudit.rules.policy import Policy
from overlapaudit.version import __version__

_BY_WEIGHT = list(reversed(Severity))


@dataclass(frozen=True, slots=True)
class Part:
    """One trace of the run, measured.

    Attributes:
        subject: the trace, its coverage, its devices and ranks.
        phases: its ranges by level and phase; None where ranges or API calls were not recorded.
        time_inside: busy time launched inside ranges, and all busy time (ns); None as `phases`.
        host: what its threads did; None where API calls were not recorded.
    """

    subject: Subject
    phases: list[doc.Span] | None
    time_inside: tuple[int, int] | None
    host: HostTimes | None


@dataclass(frozen=True, slots=True)
class HostTimes:
    """What the host threads of one trace did to the GPU.

    Attributes:
        links: which record each wait on an event waits for.
        sites: hidden waits.
        holes: holes that left a device idle.
        queues: threads whose launches found the queue full.
    """

    links: pl.DataFrame
    sites: list[WaitSite]
    holes: list[HoleSite]
    queues: list[FullQueue]


def assemble(
    parts: Sequence[Part], times: RankTimes | None, window: Window, policy: Policy
) -> doc.AuditDocument:
    """Judge the parts and give the whole document; `times` numbers the traces as `parts` do."""
    traced = any(part.subject.trace.recording.operations for part in parts)
    devices = sorted(
        (_device(part, activity) for part in parts for activity in part.subject.devices),
        key=lambda device: (device.rank, device.device),
    )
    found, barriers = _findings(parts, times, policy)
    return doc.AuditDocument(
        format_version=doc.FORMAT_VERSION,
        tool=doc.Tool("overlapaudit", __version__),
        inputs=tuple(part.subject.trace.identity for part in parts),
        window=doc.AuditedWindow(window.kind.value, window.start_ns, window.end_ns),
        coverage=_coverage(parts, times),
        devices=tuple(devices) if traced else None,
        findings=tuple(found),
        spans=_spans(parts),
        hidden_syncs=_hidden_syncs(parts, barriers),
        ranks=None if times is None else ranks_of([part.subject for part in parts], times),
    )


def _findings(
    parts: Sequence[Part], times: RankTimes | None, policy: Policy
) -> tuple[list[Finding], list[tuple[Part, Barrier]]]:
    """Judge every part: findings by weight, then what the trace is worth before what it shows.

    The barriers of default streams come beside them, each with its part.
    """
    found = rank_findings.findings([part.subject for part in parts], times, policy)
    barriers: list[tuple[Part, Barrier]] = []
    for part in parts:
        found += trace_findings.findings(part.subject, policy)
        of_streams, held = stream_findings.findings(
            part.subject, None if part.host is None else part.host.links, policy
        )
        found += of_streams
        barriers += [(part, barrier) for barrier in held]
        if part.host is not None:
            found += host_findings.findings(
                part.subject, part.host.sites, part.host.holes, part.host.queues, policy
            )
    found.sort(key=lambda one: (_BY_WEIGHT.index(one.severity), one.code, -(one.cost_ns or 0)))
    return found, barriers


def _device(part: Part, activity: DeviceActivity) -> doc.Device:
    blind = activity.process in part.subject.coverage.blind_graph_launches
    lanes = {lane.value: covered.length_ns for lane, covered in activity.lanes.items()}
    exposed = {lane.value: ns for lane, ns in activity.exposed_ns.items()}
    unknown = {Lane.GRAPH.value: None} if blind else {}
    return doc.Device(
        process=activity.process,
        rank=part.subject.rank_of[activity.process],
        device=activity.device,
        name=_gpu_name(part.subject.trace, activity),
        window_ns=activity.window_ns,
        busy_ns=None if blind else activity.busy.length_ns,
        idle_ns=None if blind else activity.idle_ns,
        lanes=doc.Lanes(**{**lanes, **unknown}),
        # What a blind graph covered is not known, so neither is what a lane had for itself.
        exposed=doc.Lanes(**dict.fromkeys(exposed) if blind else exposed),
        copies=doc.Copies(**{way.value: c.length_ns for way, c in activity.copies.items()}),
        overlap=activity.overlap,
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


def _coverage(parts: Sequence[Part], times: RankTimes | None) -> doc.Coverage:
    # A report without GPU work (of a launcher, say) has nothing to add up.
    measured = [
        part.subject.coverage for part in parts if part.subject.coverage.operations is not None
    ]
    lacking = [
        gap for part in parts for gap in gaps.gaps(part.subject.trace, part.subject.coverage)
    ]
    lacking += [gap for part in parts for gap in _unnamed_gpus(part)]
    found = doc.Coverage(
        operations=_sum(one.operations for one in measured),
        operations_with_launch=_sum(one.operations_with_launch for one in measured),
        launches=_sum(
            part.subject.coverage.launches
            for part in parts
            if part.subject.coverage.launches is not None or part.subject.coverage.operations
        ),
        launches_with_operation=_sum(one.launches_with_operation for one in measured),
        gpu_ns_in_ranges_share=_share([part.time_inside for part in parts]),
        waits=_wait_counts([part.subject.coverage.waits for part in parts]),
        opaque_graph_ns=_sum(
            _opaque_ns(part) for part in parts if part.subject.coverage.operations is not None
        ),
        clock_violations=_sum(one.clock_violations for one in measured),
        not_recorded=(),
    )
    lacking += [
        doc.NotRecorded(
            f"spans of {one.level}.{one.phase}",
            "these ranges cross threads, and their own launched nothing: whose GPU work is theirs "
            "is not known",
            None,
        )
        for part in parts
        for one in part.phases or ()
        if one.operations is None
    ]
    lacking += [
        doc.NotRecorded(f"coverage.{name}", reason, None)
        for name, reason in _WHY_NULL.items()
        if getattr(found, name) is None
    ]
    lacking += [
        doc.NotRecorded(
            "inputs.duration_ns", "the export does not say how long the session was", None
        )
        for part in parts
        if part.subject.trace.identity.duration_ns is None
    ]
    if times is None:
        lacking.append(doc.NotRecorded("ranks", "only one rank did GPU work", None))
    return replace(found, not_recorded=tuple(dict.fromkeys(lacking + gaps.not_computed())))


_NO_GPU_WORK = "no table of GPU work is in the export, or not in every one"
_NO_CALLS = "GPU work or the API calls that launched it were not recorded, or not in every export"
_WHY_NULL = {
    "operations": _NO_GPU_WORK,
    "operations_with_launch": _NO_CALLS,
    "launches": _NO_CALLS,
    "launches_with_operation": _NO_CALLS,
    "waits": "neither waits nor API calls were recorded, or not in every export",
    "opaque_graph_ns": "GPU work was not recorded, or graph launches left no rows",
    "clock_violations": _NO_CALLS,
}


def _share(parts: Sequence[tuple[int, int] | None]) -> float | None:
    """Divide the sums; None where a part is not known or no device was busy."""
    known = [part for part in parts if part is not None]
    whole = sum(part[1] for part in known)
    if len(known) < len(parts) or whole == 0:
        return None
    return round(sum(part[0] for part in known) / whole, 6)


def _spans(parts: Sequence[Part]) -> tuple[doc.Span, ...] | None:
    """Add up the phases of all ranks, in the order in which they were first met."""
    if not parts or any(part.phases is None for part in parts):
        return None
    found: dict[tuple[str, str], doc.Span] = {}
    for one in (figures for part in parts for figures in part.phases or ()):
        before = found.get((one.level, one.phase))
        found[one.level, one.phase] = (
            one
            if before is None
            else doc.Span(
                one.level,
                one.phase,
                before.count + one.count,
                before.host_ns + one.host_ns,
                _sum([before.span_ns, one.span_ns]),
                _sum([before.busy_ns, one.busy_ns]),
                _sum([before.operations, one.operations]),
            )
        )
    return tuple(found.values())


def _hidden_syncs(
    parts: Sequence[Part], barriers: Sequence[tuple[Part, Barrier]]
) -> tuple[doc.HiddenSync, ...] | None:
    """List the hidden waits of all ranks, dearest first."""
    if not parts or any(part.host is None for part in parts):
        return None
    sites = [site for part in parts if part.host is not None for site in part.host.sites]
    found = [
        doc.HiddenSync(
            code=site.code,
            api=site.api,
            process=site.process,
            thread=site.thread,
            span=site.range_text,
            count=site.count,
            host_wait_ns=site.host_wait_ns,
            gpu_idle_ns=site.gpu_idle_ns,
            saving_ns=None,
        )
        for site in sites
    ]
    found += [_held_streams(part, barrier) for part, barrier in barriers]
    found.sort(key=lambda one: (one.gpu_idle_ns is None, -(one.gpu_idle_ns or 0)))
    return tuple(found)


def _held_streams(part: Part, barrier: Barrier) -> doc.HiddenSync:
    """Give a barrier of the default stream: streams wait for it, no thread of the host does."""
    calls = part.subject.trace.api_calls
    idle = [
        barrier.cost.length_ns - intervals.intersect(barrier.cost, activity.busy).length_ns
        for activity in part.subject.devices
        if (activity.process, activity.device) == (barrier.process, barrier.device)
    ]
    return doc.HiddenSync(
        code="OA504",
        api=str(calls["name"][barrier.call]),
        process=barrier.process,
        thread=int(calls["thread"][barrier.call]),
        span=None,
        count=barrier.count,
        host_wait_ns=0,
        gpu_idle_ns=sum(idle),
        saving_ns=None,
    )


def _wait_counts(resolved: Sequence[WaitResolution | None]) -> doc.WaitCounts | None:
    known = [one for one in resolved if one is not None]
    if not known or len(known) < len(resolved):
        return None  # the rest is not the whole
    return doc.WaitCounts(
        exact=sum(one.exact for one in known),
        inferred=sum(one.inferred for one in known),
        unresolved=sum(one.unresolved for one in known),
    )


def _opaque_ns(part: Part) -> int | None:
    """Sum the opaque graph time of the whole trace, whatever the window."""
    if not part.subject.trace.recording.operations or part.subject.coverage.blind_graph_launches:
        return None
    whole = device_activities(
        part.subject.trace.operations.filter(pl.col("lane") == Lane.GRAPH.value), WHOLE_TRACE
    )
    return sum(device.busy.length_ns for device in whole)


def _unnamed_gpus(part: Part) -> list[doc.NotRecorded]:
    if all(_gpu_name(part.subject.trace, device) for device in part.subject.devices):
        return []
    reason = (
        "the export does not say which of the machine's GPUs each process used"
        if not part.subject.trace.table(TableName.GPUS).is_empty()
        else "the export does not list the machine's GPUs"
    )
    return [doc.NotRecorded("devices.name", reason, "an export by nsys 2025.3 or later")]


def _sum(values: Iterable[int | None]) -> int | None:
    """Add up; None where a part is not known, since the rest is not the whole."""
    parts = list(values)
    known = [value for value in parts if value is not None]
    return sum(known) if parts and len(known) == len(parts) else None
