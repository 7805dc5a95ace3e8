"""Findings about what host threads do to the GPU: OA501 to OA503, OA505 to OA511."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from overlapaudit.analysis.hidden_syncs import WaitSite
from overlapaudit.analysis.host_gaps import HoleSite
from overlapaudit.analysis.launch_queue import FullQueue
from overlapaudit.analysis.price import SMALLEST_COST_NS, Weight, weigh
from overlapaudit.analysis.trace_findings import Subject
from overlapaudit.model.findings import Finding, Where
from overlapaudit.model.kinds import Confidence, Severity
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
    "OA506": "let the consumer's stream wait for the collective's event instead of the host; for "
    "counts of tokens use a mode with static shapes",
    "OA507": "load, compile and capture before serving: warm up every shape and batch size, and "
    "set CUDA_MODULE_LOADING=EAGER",
    "OA509": "wait for the event (created with blocking sync) instead of asking for it, or ask "
    "once per step",
    "OA510": "use the asynchronous copy with pinned memory, and an event where the result is "
    "needed",
}
# What a range is called that a runtime sets around a collection of garbage.
_GARBAGE = re.compile(r"(?i)(^|[^a-z])gc([^a-z]|$)|garbage")


def findings(
    subject: Subject,
    sites: Sequence[WaitSite],
    holes: Sequence[HoleSite],
    queues: Sequence[FullQueue],
    policy: Policy,
) -> list[Finding]:
    """Judge what the host threads of one trace did."""
    found = [
        *(_wait(subject, site) for site in sites),
        *(_queue(subject, queue) for queue in queues),
        *_holes(subject, holes),
    ]
    return [finding for finding in found if policy.reports(finding.code)]


def _wait(subject: Subject, site: WaitSite) -> Finding:
    rule = RULES[site.code]
    device = site.devices[0] if len(site.devices) == 1 else None
    weight = _weight(subject, site)
    proven = site.idle is not None and not site.inferred
    return Finding(
        code=site.code,
        slug=rule.slug,
        severity=weight.severity,
        confidence=Confidence.PROVEN if proven else Confidence.INFERRED,
        where=Where(
            process=site.process,
            rank=subject.rank_of.get(site.process),
            device=device,
            thread=site.thread,
            range=site.range_text,
            windows=weight.windows,
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
        cost_ns=None if site.idle is None else weight.cost_ns,
        layer=rule.layer,
        tuning_step=rule.tuning_step,
        next_step=_NEXT_STEP[site.code],
    )


def _weight(subject: Subject, site: WaitSite) -> Weight:
    """Weigh the idle time of a site in the windows of the devices that it waited for."""
    devices = [
        activity
        for activity in subject.devices
        if activity.process == site.process and activity.device in site.devices
    ]
    if not site.idle or not devices:
        return Weight(0, Severity.INFO, ())
    return _one_is_no_pattern(weigh(site.idle, subject.scale(*devices)), site.count)


def _one_is_no_pattern(weight: Weight, count: int) -> Weight:
    """Make a warning about a single call an info: anything may take long once."""
    if count == 1 and weight.severity is Severity.WARNING:
        return replace(weight, severity=Severity.INFO)
    return weight


def _queue(subject: Subject, queue: FullQueue) -> Finding:
    rule = RULES["OA508"]
    return Finding(
        code=rule.code,
        slug=rule.slug,
        severity=Severity.INFO,
        confidence=Confidence.PROVEN if queue.recorded else Confidence.INFERRED,
        where=Where(
            process=queue.process,
            rank=subject.rank_of.get(queue.process),
            thread=queue.thread,
            start_ns=queue.first_ns,
            end_ns=queue.last_ns,
        ),
        evidence={
            "launches": queue.calls,
            "host_time_in_them_ns": queue.host_ns,
            "longest_ns": queue.longest_ns,
            "operations_pending": queue.depth,
            "recorded_by_the_profiler": queue.recorded,
        },
        cost_ns=0,
        layer=rule.layer,
        tuning_step=rule.tuning_step,
        next_step="nothing for the GPU, which has work in store; the thread is free for other "
        "work only if it launches less at once (a graph, or fewer steps ahead)",
    )


def _holes(subject: Subject, holes: Sequence[HoleSite]) -> Iterator[Finding]:
    for hole in holes:
        activity = next(
            (
                one
                for one in subject.devices
                if (one.process, one.device) == (hole.process, hole.device)
            ),
            None,
        )
        if activity is None or hole.idle.length_ns < SMALLEST_COST_NS:
            continue
        weight = _one_is_no_pattern(weigh([hole.idle], subject.scale(activity)), hole.count)
        rule = RULES["OA511"]
        garbage = 2 * _garbage_ns(hole) >= hole.idle.length_ns
        yield Finding(
            code=rule.code,
            slug=rule.slug,
            severity=weight.severity,
            confidence=Confidence.PROVEN,
            where=Where(
                process=hole.process,
                rank=subject.rank_of.get(hole.process),
                device=hole.device,
                thread=hole.thread,
                range=hole.range_text,
                windows=weight.windows,
                start_ns=hole.first_ns,
                end_ns=hole.last_ns,
            ),
            evidence={
                "holes": hole.count,
                "gpu_idle_ns": hole.idle.length_ns,
                "host_time_in_them_ns": hole.host_ns,
                "longest_ns": hole.longest_ns,
                "most_in": [f"{name} ({ns / 1e6:.3f} ms)" for name, ns in hole.inside],
                "operating_system_calls": None if hole.os_calls is None else list(hole.os_calls),
                "cause": _cause(garbage=garbage, os_calls=hole.os_calls),
            },
            cost_ns=weight.cost_ns,
            layer=rule.layer,
            tuning_step=rule.tuning_step,
            next_step=_hole_step(garbage=garbage, named=bool(hole.inside)),
        )


def _garbage_ns(hole: HoleSite) -> int:
    return sum(ns for name, ns in hole.inside if _GARBAGE.search(name))


def _cause(*, garbage: bool, os_calls: tuple[str, ...] | None) -> str:
    """Name the cause where the trace shows it."""
    if garbage:
        return "garbage collection, by the name of the range"
    if os_calls:
        return "the thread was in the operating system"
    if os_calls is None:
        return "not known: calls of the operating system were not recorded (--trace=osrt)"
    return "not known: the thread called neither CUDA nor, for long, the operating system"


def _hole_step(*, garbage: bool, named: bool) -> str:
    if garbage:
        return "freeze what lives long after start-up (gc.freeze) and collect between requests"
    if named:
        return "do this work while the GPU is busy: launch the next step first"
    return "set ranges around the host's work to see what it is; launch the next step first"
