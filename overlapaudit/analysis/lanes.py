"""What each device did: lanes, copies by direction, idle, and what overlapped what."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt
import polars as pl

from overlapaudit import intervals
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.document import Overlap
from overlapaudit.model.kinds import Direction, Lane, OpKind
from overlapaudit.model.window import Window

_NO_STREAM = -(1 << 63)
_FEW = 16

# Directions that are told apart in overlaps, with the lane that holds them.
_PAIRED_DIRECTIONS = {
    Direction.H2D: Lane.COPY,
    Direction.D2H: Lane.COPY,
    Direction.D2D: Lane.COPY,
    Direction.P2P: Lane.COMM,
}


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """One device of one process in a window.

    Attributes:
        process: globalPid.
        device: the ordinal as the process sees it.
        first_ns: first start of its GPU work in the whole trace; None without any time.
        last_ns: last end of its GPU work in the whole trace.
        start_ns: where its window starts.
        end_ns: where its window ends.
        busy: the union of all lanes.
        lanes: the union of each lane.
        copies: the union of each copy direction.
        exposed_ns: for each lane, what no other lane covers.
        overlap: of each pair of which both sides have time.
        unclassified_ns: the union of kernels that no rule knows.
        kernel_ns: the union of all kernels.
    """

    process: int
    device: int
    first_ns: int | None
    last_ns: int | None
    start_ns: int
    end_ns: int
    busy: IntervalSet
    lanes: Mapping[Lane, IntervalSet]
    copies: Mapping[Direction, IntervalSet]
    exposed_ns: Mapping[Lane, int]
    overlap: tuple[Overlap, ...]
    unclassified_ns: int
    kernel_ns: int

    @property
    def window_ns(self) -> int:
        """Give the length of the window."""
        return self.end_ns - self.start_ns

    @property
    def idle_ns(self) -> int:
        """Give the time of the window in which no lane ran."""
        return self.window_ns - self.busy.length_ns


def device_activities(operations: pl.DataFrame, window: Window) -> list[DeviceActivity]:
    """Measure every device that has an operation, in the order of (process, device)."""
    is_kernel = pl.col("kind") == OpKind.KERNEL.value
    work = operations.select(
        "process", "device", "context", "stream", "start_ns", "end_ns", "lane", "direction",
        is_kernel, unclassified=is_kernel & pl.col("class").is_null(),
    )  # fmt: skip
    devices = work.select("process", "device").unique().drop_nulls().sort("process", "device")
    rows_of = _picker(work, devices.height)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
        return list(
            threads.map(lambda key: _measure(key[0], key[1], rows_of(key), window), devices.rows())
        )


def _picker(work: pl.DataFrame, devices: int) -> Callable[[tuple[int, int]], pl.DataFrame]:
    """Give what picks the rows of a device: one by one where they are few, else all at once."""
    if devices > _FEW:
        parts = work.partition_by("process", "device", as_dict=True)
        return lambda key: parts.pop(key)
    return lambda key: work.filter((pl.col("process") == key[0]) & (pl.col("device") == key[1]))


def has_time(start: str = "start_ns", end: str = "end_ns") -> pl.Expr:
    """Tell the rows that have a time which can be."""
    return pl.col(start).is_not_null() & pl.col(end).is_not_null() & (pl.col(end) >= pl.col(start))


def _measure(process: int, device: int, rows: pl.DataFrame, window: Window) -> DeviceActivity:
    timed = rows.filter(has_time())
    first, last = _extent(timed)
    start_ns, end_ns = (0, 0) if first is None or last is None else window.clip(first, last)
    clipped = _Clipped.of(timed, start_ns, end_ns)
    del rows, timed
    lanes = {lane: clipped.union(clipped.rows_of(lane)) for lane in Lane}
    copies = {direction: clipped.union(clipped.rows_of(direction)) for direction in Direction}
    busy = intervals.unite(lanes.values())
    together = _Together.of(lanes, copies)
    return DeviceActivity(
        process=process,
        device=device,
        first_ns=first,
        last_ns=last,
        start_ns=start_ns,
        end_ns=end_ns,
        busy=busy,
        lanes=lanes,
        copies=copies,
        exposed_ns={lane: together.only(lane) for lane in lanes},
        overlap=tuple(_overlaps(clipped, together)),
        unclassified_ns=clipped.union(clipped.unclassified).length_ns,
        kernel_ns=clipped.union(clipped.kernel).length_ns,
    )


def _extent(timed: pl.DataFrame) -> tuple[int | None, int | None]:
    if timed.is_empty():
        return None, None
    first, last = timed.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return int(first), int(last)


@dataclass(frozen=True, slots=True)
class _Clipped:
    """The operations of a device, cut to its window, as arrays of one length."""

    start: intervals.Times
    end: intervals.Times
    lane: npt.NDArray[np.uint8]
    direction: npt.NDArray[np.uint8]  # 255: none
    stream: npt.NDArray[np.int64]
    kernel: npt.NDArray[np.bool_]
    unclassified: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, timed: pl.DataFrame, start_ns: int, end_ns: int) -> _Clipped:
        inside = timed.filter((pl.col("end_ns") > start_ns) & (pl.col("start_ns") < end_ns))
        return cls(
            start=np.maximum(inside["start_ns"].to_numpy(), start_ns),
            end=np.minimum(inside["end_ns"].to_numpy(), end_ns),
            lane=inside["lane"].to_physical().cast(pl.UInt8).to_numpy(),
            direction=inside["direction"].to_physical().cast(pl.UInt8).fill_null(255).to_numpy(),
            stream=_stream_numbers(inside).to_numpy(),
            kernel=inside["kind"].to_numpy(),
            unclassified=inside["unclassified"].to_numpy(),
        )

    def rows_of(self, side: Lane | Direction) -> npt.NDArray[np.bool_]:
        of_lane = isinstance(side, Lane)
        code = list(Lane if of_lane else Direction).index(side)
        chosen: npt.NDArray[np.bool_] = (self.lane if of_lane else self.direction) == code
        return chosen

    def union(self, chosen: npt.NDArray[np.bool_]) -> IntervalSet:
        return intervals.union(self.start[chosen], self.end[chosen])

    def shared(self, chosen: npt.NDArray[np.bool_]) -> IntervalSet:
        return intervals.shared(self.start[chosen], self.end[chosen], self.stream[chosen])


def _stream_numbers(rows: pl.DataFrame) -> pl.Series:
    """Give a number for each stream; the same stream id in two contexts is two streams."""
    context = rows["context"]
    if context.null_count() == 0 and context.min() == context.max():
        return rows["stream"].fill_null(_NO_STREAM)
    return rows.select(pl.struct("context", "stream").rank("dense").cast(pl.Int64)).to_series()


@dataclass(frozen=True, slots=True)
class _Together:
    """Time by what ran together: lanes, and the copy directions that are told apart."""

    sides: Mapping[Lane | Direction, IntervalSet]
    time_by_combination: Mapping[int, int]

    @classmethod
    def of(
        cls, lanes: Mapping[Lane, IntervalSet], copies: Mapping[Direction, IntervalSet]
    ) -> _Together:
        sides: dict[Lane | Direction, IntervalSet] = dict(lanes.items())
        sides |= {direction: copies[direction] for direction in _PAIRED_DIRECTIONS}
        present = {side: covered for side, covered in sides.items() if len(covered)}
        return cls(present, intervals.time_by_combination(list(present.values())))

    def both(self, a: Lane | Direction, b: Lane | Direction) -> int:
        """Give the time in which both ran."""
        wanted = self._bit(a) | self._bit(b)
        return sum(ns for bits, ns in self.time_by_combination.items() if bits & wanted == wanted)

    def only(self, lane: Lane) -> int:
        """Give the time in which a lane ran and no other lane did."""
        lanes = sum(self._bit(side) for side in self.sides if isinstance(side, Lane))
        bit = self._bit(lane)
        return sum(ns for bits, ns in self.time_by_combination.items() if bits & lanes == bit)

    def _bit(self, side: Lane | Direction) -> int:
        return 1 << list(self.sides).index(side) if side in self.sides else 0


def _overlaps(clipped: _Clipped, together: _Together) -> Iterator[Overlap]:
    """Measure every pair of which both sides have time, but no lane with a part of itself."""
    inside = {frozenset(pair) for pair in _PAIRED_DIRECTIONS.items()}
    present = sorted(together.sides, key=str)
    for a, b in combinations_with_replacement(present, 2):
        if frozenset((a, b)) in inside:
            continue
        both = clipped.shared(clipped.rows_of(a)).length_ns if a is b else together.both(a, b)
        a_ns, b_ns = together.sides[a].length_ns, together.sides[b].length_ns
        yield Overlap(a.value, b.value, a_ns, b_ns, both, a_ns - both, b_ns - both)
