"""An audit as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from overlapaudit.model.document import AuditDocument, Device, Overlap
from overlapaudit.model.findings import Finding
from overlapaudit.model.kinds import Severity
from overlapaudit.model.trace import InputIdentity
from overlapaudit_reports.escape import printable, shortened
from overlapaudit_reports.figures import TimeUnit, count, duration, share
from overlapaudit_reports.terminal import Terminal
from overlapaudit_reports.wording import (
    DIRECTIONS_OF,
    LANES_IN_ORDER,
    evidence_name,
    evidence_value,
    process_id,
    windows,
)

_SEVERITY_STYLE = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.INFO: "36"}


def audit_text(document: AuditDocument, terminal: Terminal | None = None) -> str:
    """Lay an audit out as text, ending in a newline."""
    shown = terminal or Terminal.of_stdout()
    lines = [
        *_inputs(document, shown),
        *_devices(document, shown),
        *_spans(document, shown),
        *coverage_lines(document, shown),
        *_not_recorded(document, shown),
        *_findings(document.findings, shown),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def input_lines(one: InputIdentity, terminal: Terminal) -> Iterator[str]:
    """Give an input's name and what wrote it, on one line where both fit."""
    facts = [f"{one.tool} {one.tool_version or 'of unknown version'}"]
    facts += [f"schema {one.schema_version}"] if one.schema_version else []
    facts += [f"session {duration(one.duration_ns)}"] if one.duration_ns is not None else []
    said = shortened(printable(", ".join(facts)), terminal.width - 2)
    name = shortened(printable(one.file), terminal.width)
    if len(name) + 2 + len(said) <= terminal.width:
        yield f"{terminal.styled(name, '1')}  {said}"
    else:
        yield terminal.styled(name, "1")
        yield f"  {said}"


def coverage_lines(document: AuditDocument, terminal: Terminal) -> Iterator[str]:
    """Say how far the parts of the trace fit together."""
    coverage = document.coverage
    of_what = "" if document.window.start_ns is None else " of the whole trace"
    yield terminal.styled(f"coverage{of_what}", "1")
    yield f"  operations          {count(coverage.operations)}"
    yield _ratio("  with their launch", coverage.operations_with_launch, coverage.operations)
    yield _ratio("  launches with work", coverage.launches_with_operation, coverage.launches)
    waits = coverage.waits
    yield "  waits on events     " + (
        f"{count(waits.exact)} exact, {count(waits.inferred)} inferred, "
        f"{count(waits.unresolved)} unresolved"
        if waits
        else "unknown"
    )
    in_ranges = coverage.gpu_ns_in_ranges_share
    known = "unknown" if in_ranges is None else share(round(in_ranges * 1_000_000), 1_000_000)
    yield f"  GPU time in ranges  {known}"
    yield f"  opaque graph time   {duration(coverage.opaque_graph_ns)}"
    yield f"  clock violations    {count(coverage.clock_violations)}"
    yield ""


def _not_recorded(document: AuditDocument, terminal: Terminal) -> Iterator[str]:
    gaps = document.coverage.not_recorded
    recordable = dict.fromkeys(gap.what for gap in gaps if gap.capture_with)
    if recordable:
        yield from _wrapped("not recorded: ", "; ".join(recordable), terminal)
        yield "  'overlapaudit doctor' says how to record it"
        yield ""


def wrapped(indent: str, text: str, terminal: Terminal) -> Iterator[str]:
    """Break a text into lines, the first behind `indent`, the rest below it."""
    return _wrapped(indent, text, terminal)


def _inputs(document: AuditDocument, terminal: Terminal) -> Iterator[str]:
    yield f"overlapaudit {document.tool.version}"
    for one in document.inputs:
        yield from input_lines(one, terminal)
    window = document.window
    if window.start_ns is not None and window.end_ns is not None:
        yield (
            f"window {duration(window.start_ns)} .. {duration(window.end_ns)} "
            "from the session start"
        )
    yield ""


def _devices(document: AuditDocument, terminal: Terminal) -> Iterator[str]:
    if not document.devices:
        yield "no GPU work in this trace"
        yield ""
        return
    for device in document.devices:
        yield from _device(device, terminal)


def _device(device: Device, terminal: Terminal) -> Iterator[str]:
    unit = TimeUnit.for_window(device.window_ns)
    name = printable(device.name) if device.name else "GPU not named"
    head = f"rank {device.rank} · device {device.device} · pid {process_id(device.process)}"
    yield terminal.styled(_fit(f"{head} · {name}", terminal), "1")
    facts = [
        f"window {unit.text(device.window_ns)} {unit.name}",
        f"busy {unit.text(device.busy_ns)} ({share(device.busy_ns, device.window_ns)})",
        f"idle {unit.text(device.idle_ns)} ({share(device.idle_ns, device.window_ns)})",
    ]
    together = "  " + "   ".join(facts)
    yield from [together] if len(together) <= terminal.width else (f"  {one}" for one in facts)
    yield ""
    yield f"  {'lane':<12}{unit.name:>14}{'of window':>12}{'alone ' + unit.name:>14}"
    yield from _lane_rows(device, unit, terminal)
    yield ""
    yield from _overlap_rows(device, unit, terminal)
    if device.unclassified_ns:
        kernels = device.lanes.compute or 0
        yield (
            f"  kernels without a class: {duration(device.unclassified_ns)}, "
            f"{share(device.unclassified_ns, kernels)} of compute"
        )
        yield ""


def _lane_rows(device: Device, unit: TimeUnit, terminal: Terminal) -> Iterator[str]:
    bar_width = terminal.width - 56
    for lane in LANES_IN_ORDER:
        ns: int | None = getattr(device.lanes, lane)
        alone: int | None = getattr(device.exposed, lane)
        if ns == 0:
            continue
        yield (
            f"  {lane:<12}{unit.text(ns):>14}{share(ns, device.window_ns):>12}"
            f"{unit.text(alone):>14}  {terminal.bar(ns or 0, device.window_ns, bar_width)}"
        )
        for direction in DIRECTIONS_OF.get(lane, ()):
            part: int | None = getattr(device.copies, direction)
            if part:
                yield (
                    f"    {direction:<10}{unit.text(part):>14}{share(part, device.window_ns):>12}"
                )
    yield (
        f"  {'idle':<12}{unit.text(device.idle_ns):>14}"
        f"{share(device.idle_ns, device.window_ns):>12}"
    )


def _overlap_rows(device: Device, unit: TimeUnit, terminal: Terminal) -> Iterator[str]:
    """List what ran at once, longest first, and name the rest in one line."""
    real = sorted(
        (pair for pair in device.overlap if pair.overlap_ns),
        key=lambda pair: (-pair.overlap_ns, pair.a, pair.b),
    )
    if real:
        yield f"  {'at once':<28}{unit.name:>12}{'of the shorter':>16}"
        for pair in real:
            yield (
                f"  {_pair_name(pair):<28}{unit.text(pair.overlap_ns):>12}"
                f"{share(pair.overlap_ns, min(pair.a_ns, pair.b_ns)):>16}"
            )
    never = [
        f"{pair.a} & {pair.b}"
        for pair in device.overlap
        if pair.a != pair.b and not pair.overlap_ns and {pair.a, pair.b} <= set(LANES_IN_ORDER)
    ]
    opaque = device.lanes.graph is None or device.lanes.graph > 0
    if opaque:
        yield "  what ran inside graphs was not recorded, nor what ran at once there"
    if not real:
        yield "  nothing else ran at once" if opaque else "  nothing ran at once"
    elif never:
        yield from _wrapped("  never at once: ", "; ".join(never), terminal)
    yield ""


def _pair_name(pair: Overlap) -> str:
    return f"{pair.a}, two streams" if pair.a == pair.b else f"{pair.a} & {pair.b}"


def _spans(document: AuditDocument, terminal: Terminal) -> Iterator[str]:
    """List levels and phases; sums over their ranges."""
    if not document.spans:
        return
    longest = max(max(one.host_ns, one.span_ns or 0) for one in document.spans)
    unit = TimeUnit.for_window(longest)
    ranks = len({device.rank for device in document.devices or ()})
    whose = f" of {ranks} ranks together" if ranks > 1 else ""
    yield terminal.styled("ranges", "1") + f"{whose}, sums in {unit.name}"
    yield f"  {'level.phase':<26}{'count':>7}{'host':>13}{'GPU span':>13}{'GPU busy':>13}{'ops':>8}"
    for one in document.spans:
        name = shortened(printable(f"{one.level}.{one.phase}"), 26)
        yield (
            f"  {name:<26}{one.count:>7,}{unit.text(one.host_ns):>13}{unit.text(one.span_ns):>13}"
            f"{unit.text(one.busy_ns):>13}{count(one.operations):>8}"
        )
    yield ""


def _findings(findings: tuple[Finding, ...], terminal: Terminal) -> Iterator[str]:
    yield terminal.styled("findings", "1")
    if not findings:
        yield "  none"
    for finding in findings:
        word = terminal.styled(f"{finding.severity.value:<8}", _SEVERITY_STYLE[finding.severity])
        yield f"  {word} {finding.code} {finding.slug}{_place(finding)}{_cost(finding)}"
        yield from _wrapped("           ", _evidence(finding.evidence), terminal)
        for item in _listed(finding.evidence):
            yield f"             {shortened(printable(item), terminal.width - 13)}"
        yield from _wrapped("           next: ", finding.next_step, terminal)


def _cost(finding: Finding) -> str:
    return f"  costs {duration(finding.cost_ns)}" if finding.cost_ns else ""


def _place(finding: Finding) -> str:
    where = finding.where
    parts = [f"rank {where.rank}"] if where.rank is not None else []
    parts += [f"device {where.device}"] if where.device is not None else []
    if where.process is not None and where.rank is None:
        parts.append(f"pid {process_id(where.process)}")
    parts += [windows(where.windows)] if where.windows else []
    return f"  ({', '.join(parts)})" if parts else ""


def _evidence(evidence: Mapping[str, object]) -> str:
    return "; ".join(
        f"{evidence_name(key)} {_value(key, value)}"
        for key, value in evidence.items()
        if not _is_list_of_names(value)
    )


def _listed(evidence: Mapping[str, object]) -> list[str]:
    """Give the names in the evidence, which take a line each: they hold commas themselves."""
    return [
        str(item)
        for value in evidence.values()
        if _is_list_of_names(value) and isinstance(value, list | tuple)
        for item in value
    ]


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list | tuple) and any(
        " " in str(item) or "(" in str(item) for item in value
    )


def _value(key: str, value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(shortened(printable(str(item)), 60) for item in value) or "none"
    return printable(evidence_value(key, value))


def _ratio(label: str, part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return f"{label:<22}unknown"
    return f"{label:<22}{count(part)} of {count(whole)} ({share(part, whole)})"


def _fit(text: str, terminal: Terminal) -> str:
    return shortened(text, terminal.width)


def _wrapped(indent: str, text: str, terminal: Terminal) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        terminal.width,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_on_hyphens=False,
    ) or [indent.rstrip()]
