"""The timeline: a figure that the page's script draws from the rectangles."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from overlapaudit_reports.html.markup import Section, data_element, joined, note, tag
from overlapaudit_reports.html.report import Report
from overlapaudit_reports.html.timeline import LANES, Rectangles

_HOW = (
    "Drag to zoom, drag with Shift to move, double-click to see all; a click in the legend hides. "
    "Where there is more than pixels can show, height is the share of the time that is covered."
)


def section(report: Report) -> Section | None:
    """Give the figure its place and its data, and say what was thinned."""
    shown = report.timeline
    if shown is None:
        return Section("timeline", "Timeline", tag("p", "No GPU work to draw."))
    data = {
        "origin_ns": shown.origin_ns,
        "span_ns": shown.span_ns,
        "lanes": LANES,
        "rows": [[row.label, row.is_heading] for row in shown.rows],
        "names": shown.names,
        **_packed(shown.rectangles),
    }
    body = joined(
        note(_HOW),
        tag("div", id="timeline-figure", class_="figure-place"),
        tag("noscript", tag("p", "The timeline needs JavaScript; the rest of the page does not.")),
        (note(sentence, " ") for sentence in shown.thinned),
        data_element("timeline-data", data),
    )
    return Section("timeline", "Timeline", body)


def _packed(drawn: Rectangles) -> dict[str, object]:
    """Write short what page.js unpacks: sizes of groups, steps from start to start in each."""
    groups = list(zip(drawn.row, drawn.lane, strict=True))
    steps = [
        after - before if group == last else after
        for (before, after), (last, group) in zip(
            pairwise([0, *drawn.start]), pairwise([None, *groups]), strict=True
        )
    ]
    return {
        "groups": [[row, lane, size] for (row, lane), size in Counter(groups).items()],
        "step": steps,
        "length": drawn.length,
        "gap": [whole - ns for whole, ns in zip(drawn.length, drawn.covered, strict=True)],
        "count": drawn.count,
        "name": drawn.name,
    }
