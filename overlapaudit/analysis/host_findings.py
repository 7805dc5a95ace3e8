"""Findings about waits of the host and shared streams: OA201, OA501, OA502, OA503, OA505, OA510."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from overlapaudit.analysis.hidden_syncs import WaitSite
from overlapaudit.analysis.lanes import DeviceActivity
from overlapaudit.analysis.price import severity_of
from overlapaudit.analysis.same_stream import SameStream, same_stream
from overlapaudit.analysis.trace_findings import Subject
from overlapaudit.model.findings import Finding, Where
from overlapaudit.model.kinds import Confidence, Lane, Severity
from overlapaudit.rules.catalogue import RULES
from overlapaudit.rules.policy import Policy

_NEXT_STEP = {
    "OA501": "keep the value on the device, or read it one step later from pinned memory behind "
    "an event",
    "OA502": "let a stream wait for an event instead of the host, or move the wait to where the "
    "result is needed",
    "OA503": "copy from pinned memory: allocate the host side once with pin_memory and reuse it",
    "OA505": "allocate before serving and reuse; with a caching allocator find out why it asks "
    "the driver in a step",
    "OA510": "use the asynchronous copy with pinned memory, and an event where the result is "
    "needed",
}
_SAME_STREAM = {
    Lane.COPY: "give the copies a stream of their own, ordered by events",
    Lane.COMM: "give the communication a stream of its own, ordered by events",
}


def findings(subject: Subject, sites: Sequence[WaitSite], policy: Policy) -> list[Finding]:
    """Judge the hidden waits and the streams of one trace."""
    found = [*_waits(subject, sites), *_streams(subject)]
    return [finding for finding in found if policy.reports(finding.code)]


def _waits(subject: Subject, sites: Sequence[WaitSite]) -> Iterator[Finding]:
    for site in sites:
        rule = RULES[site.code]
        device = site.devices[0] if len(site.devices) == 1 else None
        yield Finding(
            code=site.code,
            slug=rule.slug,
            severity=_severity(subject, site),
            confidence=Confidence.PROVEN if site.gpu_idle_ns is not None else Confidence.INFERRED,
            where=Where(
                process=site.process,
                rank=subject.rank_of.get(site.process),
                device=device,
                thread=site.thread,
                range=site.range_text,
                start_ns=site.first_ns,
                end_ns=site.last_ns,
            ),
            evidence={
                "api": site.api,
                "calls": site.count,
                "gpu_idle_ns": site.gpu_idle_ns,
                "host_wait_ns": site.host_wait_ns,
                "longest_wait_ns": site.longest_wait_ns,
            },
            cost_ns=site.gpu_idle_ns,
            layer=rule.layer,
            tuning_step=rule.tuning_step,
            next_step=_NEXT_STEP[site.code],
        )


def _severity(subject: Subject, site: WaitSite) -> Severity:
    """Weigh the idle time of a site in the window of the devices that it waited for."""
    windows = [
        activity.window_ns
        for activity in subject.devices
        if activity.process == site.process and activity.device in site.devices
    ]
    if site.gpu_idle_ns is None or not windows:
        return Severity.INFO
    severity = severity_of(site.gpu_idle_ns, sum(windows))
    if severity is Severity.WARNING and site.count == 1:
        return Severity.INFO  # a single call is no pattern
    return severity


def _streams(subject: Subject) -> Iterator[Finding]:
    for activity in subject.devices:
        for shared in same_stream(subject.trace, activity):
            severity = severity_of(shared.cost_ns, activity.window_ns)
            if severity is not Severity.INFO:
                yield _same_stream(subject, activity, shared)


def _same_stream(subject: Subject, activity: DeviceActivity, shared: SameStream) -> Finding:
    rule = RULES["OA201"]
    return Finding(
        code=rule.code,
        slug=rule.slug,
        # Whether they depend on each other is not known here, so it is no more than a warning.
        severity=Severity.WARNING,
        confidence=Confidence.INFERRED,
        where=subject.place(activity),
        evidence={
            "lane": shared.lane.value,
            "lane_ns": shared.lane_ns,
            "on_kernel_streams_ns": shared.on_kernel_streams_ns,
            "compute_ns": shared.compute_ns,
            "overlap_ns": shared.overlap_ns,
            "streams": list(shared.streams[:16]),
            "cost_is": "an upper bound: the smaller of both, if neither needs the other",
        },
        cost_ns=shared.cost_ns,
        layer=rule.layer,
        tuning_step=rule.tuning_step,
        next_step=_SAME_STREAM[shared.lane],
    )
