"""What each device did: lanes, copies by direction, idle, and what overlapped what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt
import polars as pl

from overlapaudit import intervals
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.kinds import Direction, Lane, OpKind
from overlapaudit.model.window import Window

# Directions that are told apart in overlaps, with the lane that holds them.
_PAIRED_DIRECTIONS = {
    Direction.H2D: Lane.COPY,
    Direction.D2H: Lane.COPY,
    Direction.D2D: Lane.COPY,
    Direction.P2P: Lane.COMM,
}


@dataclass(frozen=True, slots=True)
class PairOverlap:
    """Two lanes or copy directions in one window; `a == b`: across streams.

    Times in ns: what each covers, what both cover, what each covers without the other.
    """

    a: str
    b: str
    a_ns: int
    b_ns: int
    overlap_ns: int
    exposed_a_ns: int
    exposed_b_ns: int


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
    overlap: tuple[PairOverlap, ...]
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
    devices = (
        operations.select(
            "process", "device", "context", "stream", "start_ns", "end_ns", "lane", "direction",
            pl.col("kind") == OpKind.KERNEL.value,
            unclassified=(pl.col("kind") == OpKind.KERNEL.value) & pl.col("class").is_null(),
        )
        .drop_nulls(["process", "device"])
        .partition_by("process", "device", as_dict=True, include_key=False)
    )  # fmt: skip
    return [
        _measure(int(process), int(device), rows, window)
        for (process, device), rows in sorted(devices.items())
    ]


def has_time(start: str = "start_ns", end: str = "end_ns") -> pl.Expr:
    """Tell the rows that have a time which can be."""
    return pl.col(start).is_not_null() & pl.col(end).is_not_null() & (pl.col(end) >= pl.col(start))


def _measure(process: int, device: int, rows: pl.DataFrame, window: Window) -> DeviceActivity:
    timed = rows.filter(has_time()).sort("start_ns")
    first, last = _extent(timed)
    start_ns, end_ns = (0, 0) if first is None or last is None else window.clip(first, last)
    clipped = _Clipped.of(timed, start_ns, end_ns)
    lanes = {lane: clipped.union(clipped.lane == code) for code, lane in enumerate(Lane)}
    copies = {
        direction: clipped.union(clipped.direction == code)
        for code, direction in enumerate(Direction)
    }
    busy = intervals.unite(lanes.values())
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
        exposed_ns={
            lane: busy.length_ns
            - intervals.unite(other for name, other in lanes.items() if name is not lane).length_ns
            for lane in lanes
        },
        overlap=tuple(_overlaps(clipped, lanes, copies)),
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
        stream = inside.select(
            pl.struct("context", "stream").rank("dense").cast(pl.Int64)
        ).to_series()
        return cls(
            start=np.maximum(inside["start_ns"].to_numpy(), start_ns),
            end=np.minimum(inside["end_ns"].to_numpy(), end_ns),
            lane=inside["lane"].to_physical().cast(pl.UInt8).to_numpy(),
            direction=inside["direction"].to_physical().cast(pl.UInt8).fill_null(255).to_numpy(),
            stream=stream.to_numpy(),
            kernel=inside["kind"].to_numpy(),
            unclassified=inside["unclassified"].to_numpy(),
        )

    def union(self, chosen: npt.NDArray[np.bool_]) -> IntervalSet:
        return intervals.union(self.start[chosen], self.end[chosen])

    def shared(self, chosen: npt.NDArray[np.bool_]) -> IntervalSet:
        return intervals.shared(self.start[chosen], self.end[chosen], self.stream[chosen])


def _overlaps(
    clipped: _Clipped,
    lanes: Mapping[Lane, IntervalSet],
    copies: Mapping[Direction, IntervalSet],
) -> list[PairOverlap]:
    """Measure every pair of which both sides have time, but no lane with a part of itself."""
    sides: dict[str, tuple[IntervalSet, npt.NDArray[np.bool_]]] = {
        lane.value: (lanes[lane], clipped.lane == code) for code, lane in enumerate(Lane)
    }
    sides |= {
        direction.value: (copies[direction], clipped.direction == code)
        for code, direction in enumerate(Direction)
        if direction in _PAIRED_DIRECTIONS
    }
    present = sorted(name for name, (covered, _) in sides.items() if len(covered))
    inside = {(lane.value, way.value) for way, lane in _PAIRED_DIRECTIONS.items()}
    found = []
    for a, b in combinations_with_replacement(present, 2):
        if (a, b) in inside or (b, a) in inside:
            continue
        (of_a, rows_a), (of_b, _) = sides[a], sides[b]
        both = clipped.shared(rows_a).length_ns if a == b else intervals.overlap_ns(of_a, of_b)
        found.append(
            PairOverlap(
                a, b, of_a.length_ns, of_b.length_ns, both,
                of_a.length_ns - both, of_b.length_ns - both,
            )
        )  # fmt: skip
    return found
