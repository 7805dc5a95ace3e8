"""Put an audit into one HTML file, with its styles, its script, its data and plotly's script."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from plotly.offline import get_plotlyjs

from overlapaudit.audit import Audit
from overlapaudit.model.trace import Trace
from overlapaudit_reports.html.markup import Html, Section, joined, raw_element, tag
from overlapaudit_reports.html.report import Report
from overlapaudit_reports.html.sections import SECTIONS
from overlapaudit_reports.html.timeline import timeline

# The page may run what it brings and show pictures that it makes. It may load nothing.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def html_text(audit: Audit, traces: Sequence[Trace]) -> str:
    """Give the page: the same text for the same audit, about 5 MB of which are plotly's script.

    Args:
        audit: what is shown.
        traces: what was audited, in the same order; still open.
    """
    report = Report(audit.document, timeline(audit.document, traces))
    sections = [made for make in SECTIONS if (made := make(report)) is not None]
    return f"<!DOCTYPE html>\n{tag('html', _head(report), _body(sections), lang='en')}\n"


def _head(report: Report) -> Html:
    files = ", ".join(one.file for one in report.document.inputs)
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"overlapaudit: {files}"),
        raw_element("style", _bundled("style.css")),
    )


def _body(sections: Sequence[Section]) -> Html:
    links = joined(tag("a", one.title, href=f"#{one.id}") for one in sections)
    return tag(
        "body",
        tag("nav", links),
        tag("main", (_section(one) for one in sections)),
        raw_element("script", _bundled("page.js")),
        # Last, so that the tables are there before it has loaded.
        raw_element("script", get_plotlyjs(), id="plotly"),
        raw_element("script", "overlapauditDraw();"),
    )


def _section(section: Section) -> Html:
    return tag("section", tag("h2", section.title), section.body, id=section.id)


def _bundled(name: str) -> str:
    return (resources.files("overlapaudit_reports.html") / name).read_text(encoding="utf-8")
