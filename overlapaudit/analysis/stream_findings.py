"""Findings about streams and engines that keep work apart: OA201, OA202, OA504."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from overlapaudit.analysis.copy_engine import Queued, has_followers, queued_copies
from overlapaudit.analysis.default_stream import Barrier, barriers, streams_at_barrier
from overlapaudit.analysis.lanes import DeviceActivity
from overlapaudit.analysis.price import Weight, weigh, weigh_figures
from overlapaudit.analysis.ready_times import event_times, launched_operations
from overlapaudit.analysis.same_stream import SameStream, same_stream
from overlapaudit.analysis.trace_findings import Subject
from overlapaudit.model.findings import Finding, Where
from overlapaudit.model.kinds import Confidence, Lane, Severity
from overlapaudit.rules.catalogue import RULES
from overlapaudit.rules.policy import Policy

_SAME_STREAM = {
    Lane.COPY: "give the copies a stream of their own, ordered by events",
    Lane.COMM: "give the communication a stream of its own, ordered by events",
}
_AN_UPPER_BOUND = "an upper bound: the smaller of both, if neither needs the other"


def findings(
    subject: Subject, links: pl.DataFrame | None, policy: Policy
) -> tuple[list[Finding], list[Barrier]]:
    """Judge the streams of one trace; give the barriers of default streams beside the findings.

    Args:
        subject: the trace.
        links: from `resolve_waits`; None where API calls were not recorded.
        policy: which findings are reported.
    """
    found = list(_shared(subject))
    held: list[Barrier] = []
    if links is not None:
        for activity in subject.devices:
            queued, of_device = _kept_apart(subject, activity, links)
            found += [_queued(subject, activity, one) for one in queued if one.cost.length_ns]
            found += [_barrier(subject, activity, one) for one in of_device]
            held += of_device
    return [finding for finding in found if policy.reports(finding.code)], held


def _kept_apart(
    subject: Subject, activity: DeviceActivity, links: pl.DataFrame
) -> tuple[list[Queued], list[Barrier]]:
    """Look closer only at devices that have a sign of it: most have none."""
    trace = subject.trace
    queues = has_followers(trace, activity)
    at_barrier = streams_at_barrier(trace, activity)
    streams = pl.concat([queues, at_barrier]).unique()
    if streams.is_empty():
        return [], []
    launched = launched_operations(trace, streams)
    events = event_times(trace, links, launched)
    return (
        queued_copies(activity, launched, events) if not queues.is_empty() else [],
        barriers(trace, activity, launched, events) if not at_barrier.is_empty() else [],
    )


def _shared(subject: Subject) -> Iterator[Finding]:
    for activity in subject.devices:
        scale = subject.scale(activity)
        for shared in same_stream(subject.trace, activity):
            per_iteration = None if scale.iterations is None else shared.cost_in(scale.iterations)
            weight = weigh_figures(shared.cost_ns, per_iteration, scale)
            if weight.severity is not Severity.INFO:
                yield _same_stream(subject, activity, shared, weight)


def _same_stream(
    subject: Subject, activity: DeviceActivity, shared: SameStream, weight: Weight
) -> Finding:
    return _finding(
        subject,
        activity,
        "OA201",
        weight,
        Confidence.INFERRED,
        {
            "lane": shared.lane.value,
            "lane_ns": shared.lane_ns,
            "on_kernel_streams_ns": shared.on_kernel_streams.length_ns,
            "compute_ns": shared.compute.length_ns,
            "overlap_ns": shared.both.length_ns,
            "streams": list(shared.streams[:16]),
            "cost_is": _AN_UPPER_BOUND,
        },
        _SAME_STREAM[shared.lane],
    )


def _queued(subject: Subject, activity: DeviceActivity, queued: Queued) -> Finding:
    weight = weigh([queued.cost], subject.scale(activity))
    if queued.count == 1 and weight.severity is Severity.WARNING:
        weight = Weight(weight.cost_ns, Severity.INFO, weight.windows)
    return _finding(
        subject,
        activity,
        "OA202",
        weight,
        Confidence.INFERRED,
        {
            "direction": queued.direction.value,
            "copies": queued.count,
            "queued_ns": queued.queued_ns,
            "longest_ns": queued.longest_ns,
            "behind_streams": list(queued.behind[:16]),
            "cost_is": "an upper bound: the time in the queue in which no kernel ran",
        },
        "send the small copies first, or cut the large ones into pieces so that others can go "
        "between them",
        stream=queued.stream,
        start_ns=queued.first_ns,
        end_ns=queued.last_ns,
    )


def _barrier(subject: Subject, activity: DeviceActivity, barrier: Barrier) -> Finding:
    weight = weigh([barrier.cost], subject.scale(activity))
    return _finding(
        subject,
        activity,
        "OA504",
        weight,
        Confidence.PROVEN if barrier.certain else Confidence.INFERRED,
        {
            "times": barrier.count,
            "delayed_ns": barrier.delayed_ns,
            "default_stream": barrier.default_stream,
            "streams": list(barrier.streams[:16]),
            "streams_known_to_block": barrier.certain,
            "cost_is": _AN_UPPER_BOUND,
        },
        "make the streams with cudaStreamNonBlocking, or keep off the default stream, and order "
        "by events what depends on each other",
        stream=barrier.default_stream,
        start_ns=barrier.first_ns,
        end_ns=barrier.last_ns,
    )


def _finding(
    subject: Subject,
    activity: DeviceActivity,
    code: str,
    weight: Weight,
    confidence: Confidence,
    evidence: dict[str, int | str | bool | list[int] | None],
    next_step: str,
    *,
    stream: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> Finding:
    """Give a finding; whether the two depend on each other is not known, so it is no error."""
    rule = RULES[code]
    severity = weight.severity
    if severity is Severity.ERROR:
        severity = Severity.WARNING
    return Finding(
        code=code,
        slug=rule.slug,
        severity=severity,
        confidence=confidence,
        where=Where(
            process=activity.process,
            rank=subject.rank_of.get(activity.process),
            device=activity.device,
            stream=stream,
            windows=weight.windows,
            start_ns=activity.start_ns if start_ns is None else start_ns,
            end_ns=activity.end_ns if end_ns is None else end_ns,
        ),
        evidence=evidence,
        cost_ns=weight.cost_ns,
        layer=rule.layer,
        tuning_step=rule.tuning_step,
        next_step=next_step,
    )
