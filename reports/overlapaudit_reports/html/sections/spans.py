"""What the ranges of the program cost, by level and phase."""

from __future__ import annotations

from overlapaudit_reports.figures import count, duration
from overlapaudit_reports.html.markup import Section, joined, note, table, tag
from overlapaudit_reports.html.report import Report

_MOST = 500
_HEAD = ("level", "phase", "ranges", "open on the host", "GPU span", "GPU busy", "operations")


def section(report: Report) -> Section | None:
    """List levels and phases with what they cost, in the order of the audit."""
    spans = report.document.spans
    if spans is None:
        return Section("spans", "Spans", note(f"Unknown: {report.why_absent('spans')}."))
    if not spans:
        return Section("spans", "Spans", tag("p", "No ranges."))
    rows = [
        (
            span.level,
            span.phase,
            count(span.count),
            duration(span.host_ns),
            duration(span.span_ns),
            duration(span.busy_ns),
            count(span.operations),
        )
        for span in spans
    ]
    explained = note(
        "GPU span: first start to last end of a range's work, summed over the ranges; GPU busy: "
        "the part of it in which that work ran."
    )
    return Section("spans", "Spans", joined(table(_HEAD, rows, texts=2, most=_MOST), explained))
