"""What `doctor` prints: what was recorded, what cannot be judged, how to capture it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from overlapaudit.audit import Recorded
from overlapaudit.model.document import AuditDocument
from overlapaudit_reports.escape import printable
from overlapaudit_reports.terminal import Terminal
from overlapaudit_reports.text import coverage_lines, input_lines, wrapped


def doctor_text(
    document: AuditDocument, recorded: Sequence[Recorded], terminal: Terminal | None = None
) -> str:
    """Lay the coverage of one or several traces out as text, ending in a newline."""
    shown = terminal or Terminal.of_stdout()
    lines: list[str] = []
    for one, facts in zip(document.inputs, recorded, strict=True):
        lines += [*input_lines(one, shown), *_recording(facts, shown), ""]
    lines += coverage_lines(document, shown)
    lines += _gaps(document, shown)
    if recorded:
        lines += _recipe(recorded[0], shown)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _recording(facts: Recorded, terminal: Terminal) -> Iterator[str]:
    recording = facts.recording
    yield f"  recorded by nsys    {_known(recording.collector_version)}"
    yield (
        f"  driver              {_known(recording.driver_version)}"
        f", CUDA {_known(recording.cuda_version)}"
    )
    yield f"  CUDA graphs as      {_known(recording.graph_mode)}"
    work = ", ".join(sorted(kind.value for kind in recording.operations)) or "none"
    yield from wrapped("  GPU work            ", work, terminal)
    tables = ", ".join(sorted(name.value.replace("_", " ") for name in recording.tables)) or "none"
    yield from wrapped("  other tables        ", tables, terminal)


def _gaps(document: AuditDocument, terminal: Terminal) -> Iterator[str]:
    yield terminal.styled("what cannot be judged", "1")
    gaps = [gap for gap in document.coverage.not_recorded if gap.capture_with]
    if not gaps:
        yield "  nothing: everything that an audit uses was recorded"
    for gap in gaps:
        yield from wrapped("  ", f"{gap.what}: {gap.why}", terminal)
        yield from wrapped("    record with ", str(gap.capture_with), terminal)
    yield ""


def _recipe(facts: Recorded, terminal: Terminal) -> Iterator[str]:
    yield terminal.styled("how to record it", "1")
    for step in facts.recipe:
        yield from wrapped("  # ", step.purpose, terminal)
        yield from _command(step.command, terminal)


def _command(command: str, terminal: Terminal) -> Iterator[str]:
    """Break a command the way a shell continues it."""
    broken = textwrap.wrap(
        command,
        terminal.width - 2,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (f"{line} \\" for line in broken[:-1])
    yield broken[-1]


def _known(text: str | None) -> str:
    return printable(text) if text else "unknown"
