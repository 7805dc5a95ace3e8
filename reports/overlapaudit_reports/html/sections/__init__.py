"""The sections of a page, from top to bottom. Each makes its HTML, or None to be left out."""

from __future__ import annotations

from collections.abc import Callable

from overlapaudit_reports.html.markup import Section
from overlapaudit_reports.html.report import Report
from overlapaudit_reports.html.sections import (
    coverage,
    devices,
    findings,
    hidden_waits,
    overlap,
    ranks,
    spans,
    timeline,
    verdict,
)

SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    verdict.section,
    coverage.section,
    devices.section,
    timeline.section,
    overlap.section,
    hidden_waits.section,
    ranks.section,
    spans.section,
    findings.section,
)
