"""What each device did: time of each lane, alone and in all."""

from __future__ import annotations

from collections.abc import Iterator

from overlapaudit.model.document import Device
from overlapaudit_reports.figures import TimeUnit, duration, share
from overlapaudit_reports.html.markup import Child, Html, Section, joined, note, table, tag
from overlapaudit_reports.html.report import Report, place
from overlapaudit_reports.html.timeline import IDLE
from overlapaudit_reports.wording import DIRECTIONS_OF, LANES_IN_ORDER

_MOST = 64


def section(report: Report) -> Section | None:
    """Give each device a table."""
    devices = report.document.devices or ()
    if not devices:
        return Section("devices", "Devices", tag("p", "No GPU work in this trace."))
    shown = tag("div", (_device(device) for device in devices[:_MOST]), class_="side-by-side")
    if len(devices) > _MOST:
        left = note(f"{len(devices) - _MOST:,} more devices are in the JSON of the audit.")
        shown = joined(shown, left)
    return Section("devices", "Devices", shown)


def _device(device: Device) -> Html:
    unit = TimeUnit.for_window(device.window_ns)
    head = ("lane", "", unit.name, "of window", f"alone, {unit.name}")
    facts = (
        f"{device.name or 'GPU not named'}, window {duration(device.window_ns)}, "
        f"busy {duration(device.busy_ns)} ({share(device.busy_ns, device.window_ns)})"
    )
    parts = [
        tag("h3", place(device)),
        note(facts),
        table(head, list(_rows(device, unit)), texts=2),
    ]
    if device.unclassified_ns:
        kernels = share(device.unclassified_ns, device.lanes.compute or 0)
        unknown = duration(device.unclassified_ns)
        parts.append(note(f"Kernels without a class: {unknown}, {kernels} of compute."))
    return tag("div", parts)


def _rows(device: Device, unit: TimeUnit) -> Iterator[tuple[Child, ...]]:
    for lane in LANES_IN_ORDER:
        ns: int | None = getattr(device.lanes, lane)
        alone: int | None = getattr(device.exposed, lane)
        if ns == 0:
            continue
        yield (
            lane,
            _bar(lane, ns, device.window_ns),
            unit.text(ns),
            share(ns, device.window_ns),
            unit.text(alone),
        )
        for direction in DIRECTIONS_OF.get(lane, ()):
            part: int | None = getattr(device.copies, direction)
            if part:
                name = tag("span", direction, class_="part")
                yield name, "", unit.text(part), share(part, device.window_ns), ""
    yield (
        IDLE,
        _bar(IDLE, device.idle_ns, device.window_ns),
        unit.text(device.idle_ns),
        share(device.idle_ns, device.window_ns),
        "",
    )


def _bar(lane: str, ns: int | None, window_ns: int) -> Html:
    if not ns or window_ns <= 0:
        return Html("")
    width = f"{100 * ns / window_ns:.2f}%"
    return tag("div", tag("div", class_=f"lane-{lane}", style=f"width:{width}"), class_="bar")
