"""The verdict in a sentence or two, and what was audited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from overlapaudit.model.document import AuditDocument, Device
from overlapaudit.model.findings import Finding
from overlapaudit.model.kinds import Severity
from overlapaudit_reports.figures import duration, share
from overlapaudit_reports.html.markup import Html, Section, joined, table, tag
from overlapaudit_reports.html.report import Report

_MOST_INPUTS = 64


def section(report: Report) -> Section | None:
    """Say what matters most, then name the inputs."""
    document = report.document
    body = joined(
        tag("p", verdict(document), class_="verdict"),
        _inputs(document),
    )
    return Section("verdict", "Audit", body)


def verdict(document: AuditDocument) -> str:
    """Say in a sentence or two what the devices did, and how much was found."""
    parts = [*_activity(document.devices), _found(document.findings)]
    return " ".join(f"{part}." for part in parts)


def _activity(devices: Sequence[Device] | None) -> Iterator[str]:
    timed = [device for device in devices or () if device.window_ns > 0]
    if not timed:
        yield "No GPU work in this trace"
        return
    ranks = len({device.rank for device in timed})
    who = f"{_number(ranks, 'rank')} on {_number(len(timed), 'device')}"
    busy = [device.busy_ns for device in timed if device.busy_ns is not None]
    idle = [device.idle_ns for device in timed if device.idle_ns is not None]
    whole = sum(device.window_ns for device in timed if device.idle_ns is not None)
    unknown = len(timed) - len(idle)
    lost = "graph launches left no GPU rows"
    if not idle:
        yield f"{who}: idle time unknown, because {lost}"
        return
    yield (
        f"{who}: busy {share(sum(busy), whole)}, idle {share(sum(idle), whole)} "
        f"({duration(sum(idle))} of {duration(whole)})"
    )
    if unknown:
        yield f"Idle time is unknown on {_number(unknown, 'further device')}, because {lost}"
    yield from _beside(timed)


def _beside(devices: Sequence[Device]) -> Iterator[str]:
    """Say how much of the communication and of the copies ran beside other work."""
    said = []
    for name, lane in (("communication", "comm"), ("copies", "copy")):
        whole = sum(getattr(device.lanes, lane) or 0 for device in devices)
        alone = sum(getattr(device.exposed, lane) or 0 for device in devices)
        if whole:
            said.append(f"{share(whole - alone, whole)} of the {name} ({duration(whole)})")
    if said:
        yield f"{' and '.join(said)} ran beside work of other lanes"
    opaque = sum(device.lanes.graph or 0 for device in devices)
    if opaque:
        window = sum(device.window_ns for device in devices)
        yield (
            f"What ran inside CUDA graphs was not recorded: {duration(opaque)}, "
            f"{share(opaque, window)} of the window"
        )


def _found(findings: Sequence[Finding]) -> str:
    if not findings:
        return "No findings"
    by = Counter(finding.severity for finding in findings)
    return ", ".join(
        (
            _number(by[Severity.ERROR], "error"),
            _number(by[Severity.WARNING], "warning"),
            _number(by[Severity.INFO], "remark"),
        )
    )


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _inputs(document: AuditDocument) -> Html:
    window = document.window
    span = (
        "the whole trace"
        if window.start_ns is None or window.end_ns is None
        else f"{duration(window.start_ns)} to {duration(window.end_ns)} from the session start"
    )
    rows = [
        (
            one.file,
            f"{one.tool} {one.tool_version or 'of unknown version'}",
            one.schema_version or "unknown",
            one.sha256[:16],
            duration(one.duration_ns),
        )
        for one in document.inputs
    ]
    return joined(
        table(("input", "tool", "schema", "SHA-256", "session"), rows, texts=4, most=_MOST_INPUTS),
        tag("p", f"Window: {span}. overlapaudit {document.tool.version}.", class_="note"),
    )
