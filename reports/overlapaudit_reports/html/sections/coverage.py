"""What the trace holds, how far its parts fit together, and what it lacks."""

from __future__ import annotations

from overlapaudit.model.document import Coverage, NotRecorded
from overlapaudit_reports.figures import count, duration, share
from overlapaudit_reports.html.markup import Html, Section, table, tag
from overlapaudit_reports.html.report import Report

_MOST = 200


def section(report: Report) -> Section | None:
    """Count, then name what is missing and what would record it."""
    coverage = report.document.coverage
    gaps = coverage.not_recorded
    missing = [tag("h3", "Not recorded"), _recordable([gap for gap in gaps if gap.capture_with])]
    rest = [gap for gap in gaps if not gap.capture_with]
    if rest:
        listed = table(("what", "why"), [(gap.what, gap.why) for gap in rest], texts=2, most=_MOST)
        missing.append(tag("details", tag("summary", f"Not computed ({len(rest)})"), listed))
    counts = tag("div", tag("h3", "The whole trace"), _counts(coverage))
    body = tag("div", counts, tag("div", missing), class_="beside")
    return Section("coverage", "Coverage", body)


def _counts(coverage: Coverage) -> Html:
    waits = coverage.waits
    said = (
        f"{count(waits.exact)} exact, {count(waits.inferred)} inferred, "
        f"{count(waits.unresolved)} unresolved"
        if waits
        else "unknown"
    )
    rows = (
        ("operations", count(coverage.operations)),
        ("with their launch", _ratio(coverage.operations_with_launch, coverage.operations)),
        ("launches with work", _ratio(coverage.launches_with_operation, coverage.launches)),
        ("waits on events", said),
        ("GPU time in ranges", _share(coverage.gpu_ns_in_ranges_share)),
        ("opaque graph time", duration(coverage.opaque_graph_ns)),
        ("clock violations", count(coverage.clock_violations)),
    )
    return table(("", ""), rows, texts=2)


def _recordable(gaps: list[NotRecorded]) -> Html:
    if not gaps:
        return tag("p", "Nothing: everything that an audit uses was recorded.")
    rows = [(gap.what, gap.why, tag("code", gap.capture_with or "")) for gap in gaps]
    return table(("what", "why", "record with"), rows, texts=3, most=_MOST)


def _ratio(part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return "unknown"
    return f"{count(part)} of {count(whole)} ({share(part, whole)})"


def _share(value: float | None) -> str:
    return "unknown" if value is None else share(round(value * 1_000_000), 1_000_000)
