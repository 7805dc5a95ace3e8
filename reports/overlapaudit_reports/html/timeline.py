"""The timeline of a report: what each stream ran, as few enough rectangles for a browser.

Rows are streams, and below those of each device what was idle. Up to `_MOST_RECTANGLES` pieces (an
operation, or an idle time) each have a rectangle. Above that, neighbours of one row and lane share
one, which says how much of its time they cover: rectangles are kept apart at the longest gaps, and
at the edges of equal bins of time, so that dense work can still be zoomed into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from overlapaudit import intervals
from overlapaudit.intervals import Times
from overlapaudit.model.document import AuditDocument, Device
from overlapaudit.model.kinds import Lane, OpKind
from overlapaudit.model.tables import OPERATIONS
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import Window, WindowKind
from overlapaudit_reports.escape import printable, shortened
from overlapaudit_reports.figures import count

IDLE = "idle"
LANES = (*(lane.value for lane in Lane), IDLE)

_MOST_RECTANGLES = 50_000
_MOST_STREAMS = 64  # rows a device
_MOST_ROWS = 256
_MOST_NAMES = 2_000
_NAME_WIDTH = 100
_LABELLED_BY = ("kind", "direction", "name")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the figure: the heading of a device, one of its streams, or its idle time."""

    label: str
    is_heading: bool = False


@dataclass(frozen=True, slots=True)
class Rectangles:
    """Columns of one length, ordered by row, lane and start.

    Attributes:
        row: index into the rows.
        lane: index into LANES.
        start: ns from the origin.
        length: ns, from first start to last end.
        covered: ns of it in which the lane had work.
        count: how many operations share the rectangle, or idle times.
        name: index into the names; -1 for none.
    """

    row: list[int]
    lane: list[int]
    start: list[int]
    length: list[int]
    covered: list[int]
    count: list[int]
    name: list[int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """What the figure shows.

    Attributes:
        origin_ns: where it begins, from the session start.
        span_ns: how long it is.
        rows: from top to bottom.
        names: of operations, as people read them.
        rectangles: what is drawn.
        thinned: what was left out or put together, in sentences.
    """

    origin_ns: int
    span_ns: int
    rows: tuple[Row, ...]
    names: tuple[str, ...]
    rectangles: Rectangles
    thinned: tuple[str, ...]


def timeline(document: AuditDocument, traces: Sequence[Trace]) -> Timeline | None:
    """Lay out the window of an audit; None where no device has any time in it.

    Args:
        document: of the audit of `traces`.
        traces: the same, in the same order.
    """
    devices = list(_devices(document, traces))
    if not devices:
        return None
    return _Layout(devices).timeline()


@dataclass(frozen=True, slots=True)
class _DeviceWork:
    """The operations of one device, cut to its window [start_ns, end_ns)."""

    device: Device
    operations: pl.DataFrame
    start_ns: int
    end_ns: int

    def idle(self) -> intervals.IntervalSet:
        if self.device.idle_ns is None:
            return intervals.EMPTY
        busy = intervals.union(_array(self.operations["start"]), _array(self.operations["end"]))
        return intervals.complement(busy, self.start_ns, self.end_ns)


def _devices(document: AuditDocument, traces: Sequence[Trace]) -> Iterator[_DeviceWork]:
    """Give the devices that have time in the window, by rank."""
    window = Window(
        WindowKind(document.window.kind), document.window.start_ns, document.window.end_ns
    )
    numbered = sorted(document.devices or (), key=lambda device: device.rank)
    ranks: dict[int, list[int]] = {}  # by process; one that is in two traces has two
    for device in numbered:
        ranks.setdefault(device.process, []).append(device.rank)
    seen: dict[int, int] = {}  # by process: its last rank
    found: dict[tuple[int, int], _DeviceWork] = {}
    by_place = {(device.rank, device.process, device.device): device for device in numbered}
    for trace in traces:
        parts = _timed(trace.operations).partition_by("process", "device", as_dict=True)
        rank_of: dict[int, int] = {}
        for process in trace.operations["process"].unique().drop_nulls().to_list():
            later = [rank for rank in ranks.get(process, ()) if rank > seen.get(process, -1)]
            if later:
                rank_of[process] = seen[process] = min(later)
        for (process, ordinal), rows in parts.items():
            place = by_place.get((rank_of.get(process, -1), process, ordinal))
            work = None if place is None else _clipped(place, rows, window)
            if work is not None:
                found[work.device.rank, work.device.device] = work
    yield from (found[key] for key in sorted(found))


def _timed(operations: pl.DataFrame) -> pl.DataFrame:
    return operations.select(
        "process", "device", "context", "stream", "kind", "direction", "name",
        start=pl.col("start_ns"), end=pl.col("end_ns"), lane=pl.col("lane").to_physical(),
    ).filter(
        pl.col("process").is_not_null() & pl.col("device").is_not_null()
        & pl.col("start").is_not_null() & (pl.col("end") >= pl.col("start"))
    )  # fmt: skip


def _clipped(device: Device, rows: pl.DataFrame, window: Window) -> _DeviceWork | None:
    start_ns, end_ns = window.clip(int(_array(rows["start"]).min()), int(_array(rows["end"]).max()))
    has_time = pl.col("end") > pl.col("start")
    inside = rows.filter(
        (pl.col("start") < end_ns)
        & pl.when(has_time).then(pl.col("end") > start_ns).otherwise(pl.col("end") >= start_ns)
    )
    if inside.is_empty():
        return None
    cut = inside.with_columns(pl.col("start").clip(start_ns), pl.col("end").clip(None, end_ns))
    return _DeviceWork(device, cut, start_ns, end_ns)


class _Layout:
    """Gives each stream its row, and draws."""

    def __init__(self, devices: Sequence[_DeviceWork]) -> None:
        shown = devices[: _MOST_ROWS // 3]
        self._origin_ns = min(work.start_ns for work in shown)
        self._span_ns = max(work.end_ns for work in shown) - self._origin_ns
        self._rows: list[Row] = []
        self._thinned: list[str] = []
        self._pieces: list[pl.DataFrame] = []
        if len(shown) < len(devices):
            self._thinned.append(f"Only the first {len(shown)} of {len(devices)} devices are here.")
        streams = max(1, min(_MOST_STREAMS, _MOST_ROWS // len(shown) - 2))
        for work in shown:
            self._add(work, streams)

    def _add(self, work: _DeviceWork, most_streams: int) -> None:
        place = f"rank {work.device.rank} · device {work.device.device}"
        self._rows.append(Row(place, is_heading=True))
        streams = _streams(work.operations)
        if streams.height > most_streams:
            self._thinned.append(
                f"{place}: the {most_streams} busiest of {streams.height:,} streams are here."
            )
        contexts = streams["context"].n_unique() > 1
        chosen = streams.head(most_streams).sort("context", "stream", nulls_last=True)
        chosen = chosen.with_columns(
            row=pl.int_range(pl.len(), dtype=pl.Int64) + len(self._rows)
        ).select("context", "stream", "row")
        for context, stream, _ in chosen.rows():
            name = "stream unknown" if stream is None else f"stream {stream}"
            self._rows.append(Row(f"{name} (context {context})" if contexts else name))
        self._pieces.append(
            work.operations.join(chosen, on=["context", "stream"], nulls_equal=True).select(
                "row", "lane", "start", "end", *_LABELLED_BY
            )
        )
        self._pieces.append(self._idle(work.idle()))
        self._rows.append(Row("idle unknown" if work.device.idle_ns is None else IDLE))

    def _idle(self, idle: intervals.IntervalSet) -> pl.DataFrame:
        return pl.DataFrame({"start": idle.start, "end": idle.end}).select(
            pl.lit(len(self._rows), dtype=pl.Int64).alias("row"),
            pl.lit(LANES.index(IDLE), dtype=pl.UInt8).alias("lane"),
            "start",
            "end",
            *(pl.lit(None, dtype=OPERATIONS[name]).alias(name) for name in _LABELLED_BY),
        )

    def timeline(self) -> Timeline:
        pieces = pl.concat(self._pieces).sort("row", "lane", "start", "end")
        drawn, labels = self._rectangles(pieces)
        names, index_of = _names(labels, drawn["length"])
        if len(index_of) > len(names):
            self._thinned.append(
                f"Of {len(index_of):,} names the {len(names):,} with most time are here."
            )
        drawn = drawn.with_columns(
            name=labels.replace_strict(
                {label: index for label, index in index_of.items() if index < len(names)},
                default=-1,
                return_dtype=pl.Int64,
            )
        )
        return Timeline(
            origin_ns=self._origin_ns,
            span_ns=self._span_ns,
            rows=tuple(self._rows),
            names=tuple(names),
            rectangles=Rectangles(**{name: drawn[name].to_list() for name in drawn.columns}),
            thinned=tuple(self._thinned),
        )

    def _rectangles(self, pieces: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """Give the rectangles of sorted pieces, and for each the one label of what is in it."""
        start, end = self._from_origin(pieces["start"]), self._from_origin(pieces["end"])
        group = _array(pieces["row"] * len(LANES) + pieces["lane"].cast(pl.Int64))
        reached = _reached(end, group)
        first = self._first_of_each(pieces, start, reached, group)
        label = _labels(pieces)
        codes = _array(label.to_physical().cast(pl.Int64).fill_null(-1))
        alike = np.minimum.reduceat(codes, first) == np.maximum.reduceat(codes, first)
        fresh = np.maximum(end - np.maximum(start, reached), 0)
        heads = pieces[first]
        drawn = pl.DataFrame(
            {
                "row": heads["row"],
                "lane": heads["lane"],
                "start": start[first],
                "length": np.maximum.reduceat(end, first) - start[first],
                "covered": np.add.reduceat(fresh, first),
                "count": np.diff(np.append(first, len(start))),
            }
        ).cast({"start": pl.UInt64, "length": pl.UInt64, "covered": pl.UInt64})
        named = label[first].cast(pl.String)
        return drawn, pl.select(pl.when(pl.Series(alike)).then(named)).to_series()

    def _first_of_each(
        self, pieces: pl.DataFrame, start: Floats, reached: Floats, group: Times
    ) -> Times:
        """Give the indices at which a rectangle begins, and say what that put together."""
        if len(start) <= _MOST_RECTANGLES:
            return np.arange(len(start))
        changes = np.append(True, group[1:] != group[:-1])
        groups = int(changes.sum())
        budget = max(2, _MOST_RECTANGLES - groups)
        cut = changes.copy()
        gap = np.where(changes, 0.0, start - reached)
        cut[np.argpartition(gap, -(budget // 2))[-(budget // 2) :]] = True
        bins = max(1, budget // 2 // groups)
        bin_ = np.floor(start * (bins / max(1, self._span_ns)))
        cut[1:] |= bin_[1:] != bin_[:-1]
        first = np.flatnonzero(cut)
        sizes = np.diff(np.append(first, len(start)))
        idle = int((pieces["lane"] == LANES.index(IDLE)).sum())
        self._thinned.append(
            f"{count(len(start) - idle)} operations and {count(idle)} idle times are drawn as "
            f"{count(len(first))} rectangles: {count(int(sizes[sizes > 1].sum()))} of them share "
            "one with their neighbours on the same stream and lane, which zooming does not part."
        )
        return first

    def _from_origin(self, times: pl.Series) -> Floats:
        """Give ns from the origin, exact up to 2^53 (104 days)."""
        # Differences of any two times fit 64 bits without a sign, and wrap into them.
        apart: npt.NDArray[np.uint64] = (_array(times) - np.int64(self._origin_ns)).view(np.uint64)
        return apart.astype(np.float64)


def _streams(operations: pl.DataFrame) -> pl.DataFrame:
    """Give the streams, busiest first."""
    lasts = pl.col("end").cast(pl.Float64) - pl.col("start").cast(pl.Float64)
    return (
        operations.group_by("context", "stream")
        .agg(busy=lasts.sum(), operations=pl.len())
        .sort(
            "busy", "operations", "context", "stream",
            descending=[True, True, False, False], nulls_last=True,
        )
    )  # fmt: skip


def _reached(end: Floats, group: Times) -> Floats:
    """Give how far the pieces before each one of its group had come; -inf for the first."""
    frame = pl.DataFrame({"end": end, "group": group})
    reached = frame.select(pl.col("end").cum_max().shift(1).over("group")).to_series()
    array: Floats = reached.fill_null(-np.inf).to_numpy()
    return array


def _labels(operations: pl.DataFrame) -> pl.Series:
    """Say what each operation is: a kernel's name, else its kind and direction; idle is null."""
    other = pl.concat_str(
        pl.col("kind").cast(pl.String), pl.col("direction").cast(pl.String),
        separator=" ", ignore_nulls=True,
    )  # fmt: skip
    kind = pl.col("kind")
    return operations.select(
        pl.when(kind == OpKind.KERNEL.value)
        .then(pl.col("name"))
        .when(kind.is_not_null())
        .then(other.cast(pl.Categorical))
    ).to_series()


def _names(labels: pl.Series, length: pl.Series) -> tuple[list[str], Mapping[str, int]]:
    """Give the names that are kept, as people read them, and the index of every label."""
    ordered = (
        pl.DataFrame({"label": labels, "length": length})
        .drop_nulls()
        .group_by("label")
        .agg(pl.col("length").cast(pl.Float64).sum())
        .sort("length", "label", descending=[True, False])["label"]
        .to_list()
    )
    kept = [
        shortened(printable(label), _NAME_WIDTH).strip() or "(no name)"
        for label in ordered[:_MOST_NAMES]
    ]
    return kept, {label: index for index, label in enumerate(ordered)}


def _array(series: pl.Series) -> Times:
    array: Times = series.to_numpy()
    return array
