"""The picture in README: one layer of the bundled trace, drawn from the trace itself."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

import polars as pl

import overlapaudit as oa
from overlapaudit import intervals
from overlapaudit.intervals import IntervalSet

START_NS, END_NS = 1_048_000, 1_248_000
LEFT, RIGHT, TOP, ROW, BAR = 110, 30, 74, 46, 26
WIDTH, HEIGHT = 860, TOP + 4 * ROW + 62
LANES = (("compute", "#4477aa"), ("comm", "#aa3377"), ("copy", "#228833"))
INK, FAINT = "#24292f", "#6e7781"


def picture(trace_file: Path) -> str:
    """Draw what the first rank's device did, and what the audit says of that window."""
    with oa.open_trace(trace_file) as trace:
        document = oa.audit(trace, window=f"{START_NS}ns..{END_NS}ns").to_dict()
        device = document["devices"][0]
        work = trace.operations.filter(
            (pl.col("process") == device["process"])
            & (pl.col("end_ns") > START_NS)
            & (pl.col("start_ns") < END_NS)
        )
    sets = {lane: _covered(work.filter(pl.col("lane") == lane)) for lane, _ in LANES}
    both = intervals.intersect(sets["compute"], sets["copy"])
    busy = intervals.unite(_covered(part) for part in work.partition_by("lane"))
    idle = intervals.complement(busy, START_NS, END_NS)
    pair = next(p for p in device["overlap"] if (p["a"], p["b"]) == ("compute", "copy"))
    assert (both.length_ns, idle.length_ns) == (pair["overlap_ns"], device["idle_ns"])
    said = (
        f"compute & copy {_us(pair['overlap_ns'])} at once, "
        f"{100 * pair['overlap_ns'] / pair['b_ns']:.1f} % of the copies are hidden; "
        f"idle {_us(device['idle_ns'])} of {_us(device['window_ns'])}"
    )
    return "\n".join([*_frame(said), *_shade(both, idle), *_bars(work), *_axis(), "</svg>", ""])


def _covered(work: pl.DataFrame) -> IntervalSet:
    return intervals.clip(
        intervals.union(work["start_ns"].to_numpy(), work["end_ns"].to_numpy()), START_NS, END_NS
    )


def _us(ns: int) -> str:
    return f"{ns / 1000:.1f} µs"


def _x(ns: int) -> float:
    return LEFT + (ns - START_NS) * (WIDTH - LEFT - RIGHT) / (END_NS - START_NS)


def _frame(said: str) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">'
    )
    yield f"<title>{escape(said)}</title>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>'
    yield (
        f'<text x="24" y="32" font-size="16" font-weight="600" fill="{INK}">'
        "Lanes of one device, cut to a window</text>"
    )
    yield f'<text x="24" y="54" fill="{FAINT}">{escape(said)}</text>'


def _shade(both: IntervalSet, idle: IntervalSet) -> Iterator[str]:
    for start, end in both.pairs():
        yield _rectangle(start, end, TOP - 4, 3 * ROW + 2, "#ccbb44", opacity=0.35)
    for start, end in idle.pairs():
        yield _rectangle(start, end, TOP + 3 * ROW + 4, BAR, "#bbbbbb")
    yield _label("idle", TOP + 3 * ROW + 4)


def _bars(work: pl.DataFrame) -> Iterator[str]:
    for row, (lane, colour) in enumerate(LANES):
        top = TOP + row * ROW + 4
        yield _label(lane, top)
        rows = work.filter(pl.col("lane") == lane).select("start_ns", "end_ns").rows()
        for start, end in rows:
            yield _rectangle(max(start, START_NS), min(end, END_NS), top, BAR, colour)


def _label(text: str, top: int) -> str:
    return f'<text x="24" y="{top + 18}" fill="{INK}">{text}</text>'


def _rectangle(
    start: int, end: int, top: int, height: int, colour: str, opacity: float = 1.0
) -> str:
    return (
        f'<rect x="{_x(start):.1f}" y="{top}" width="{_x(end) - _x(start):.1f}" '
        f'height="{height}" fill="{colour}" fill-opacity="{opacity:g}"/>'
    )


def _axis() -> Iterator[str]:
    bottom = TOP + 4 * ROW + 4
    yield f'<path d="M{LEFT} {bottom}H{WIDTH - RIGHT}" stroke="{FAINT}" fill="none"/>'
    for ns in range(START_NS - START_NS % 50_000 + 50_000, END_NS, 50_000):
        yield f'<path d="M{_x(ns):.1f} {bottom}v5" stroke="{FAINT}" fill="none"/>'
        yield (
            f'<text x="{_x(ns):.1f}" y="{bottom + 20}" fill="{FAINT}" text-anchor="middle" '
            f'font-size="11">{ns // 1000:,} µs</text>'
        )
    yield (
        f'<text x="24" y="{bottom + 40}" fill="{FAINT}" font-size="11">yellow: a copy and a '
        "kernel run at once · grey: no lane runs · drawn from sample_traces/decode_steps.sqlite"
        "</text>"
    )
