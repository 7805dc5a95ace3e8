"""What ran at once: a matrix for each device."""

from __future__ import annotations

from overlapaudit.model.document import Device, Overlap
from overlapaudit_reports.figures import TimeUnit, share
from overlapaudit_reports.html.markup import Html, Section, joined, note, tag
from overlapaudit_reports.html.report import Report, place

_IN_ORDER = ("compute", "comm", "copy", "memset", "graph", "h2d", "d2h", "d2d", "p2p")
_MOST = 64


def section(report: Report) -> Section | None:
    """Give each device a matrix of its lanes and copy directions."""
    devices = [device for device in report.document.devices or () if device.overlap]
    if not devices:
        return Section("overlap", "Overlap", tag("p", "Nothing that could run at once."))
    parts = [
        note(
            "Time in which both ran, and its share of the shorter of the two. On the diagonal: two "
            "or more streams at once. Empty: one is a part of the other."
        ),
        tag("div", (_matrix(device) for device in devices[:_MOST]), class_="side-by-side"),
    ]
    if len(devices) > _MOST:
        parts.append(note(f"{len(devices) - _MOST:,} more devices are in the JSON of the audit."))
    return Section("overlap", "Overlap", joined(parts))


def _matrix(device: Device) -> Html:
    unit = TimeUnit.for_window(device.window_ns)
    pairs = {frozenset((pair.a, pair.b)): pair for pair in device.overlap}
    present = {side for sides in pairs for side in sides}
    names = [name for name in _IN_ORDER if name in present]
    head = tag("tr", tag("th", unit.name), (tag("th", name) for name in names))
    rows = (
        tag(
            "tr",
            tag("th", name),
            (_cell(pairs.get(frozenset((name, other))), unit) for other in names),
        )
        for name in names
    )
    grid = tag("table", tag("thead", head), tag("tbody", rows), class_="matrix")
    return tag("div", tag("h3", place(device)), tag("div", grid, class_="wide"))


def _cell(pair: Overlap | None, unit: TimeUnit) -> Html:
    if pair is None:
        return tag("td", class_="none")
    shorter = min(pair.a_ns, pair.b_ns)
    tint = pair.overlap_ns / shorter if shorter > 0 else 0.0
    said = joined(
        unit.text(pair.overlap_ns), tag("br"), tag("small", share(pair.overlap_ns, shorter))
    )
    if not pair.overlap_ns:
        return tag("td", tag("span", "0", class_="zero"))
    return tag("td", said, style=f"background:rgb(68 119 170 / {0.08 + 0.42 * tint:.2f})")
