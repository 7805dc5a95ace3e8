"""Copies or communication that cannot run beside kernels because they share the kernels' stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.lanes import DeviceActivity, has_time
from overlapaudit.intervals import IntervalSet, Times
from overlapaudit.model.kinds import Direction, Lane
from overlapaudit.model.trace import Trace
from overlapaudit.spans.iterations import Iterations

# This much of a lane's time must lie on streams that run kernels too.
_SHARED_SHARE = 0.9
# Copies on the device itself compete with kernels for its memory, whatever their stream.
_ACROSS_THE_BUS = [Direction.H2D.value, Direction.D2H.value]


@dataclass(frozen=True, slots=True, eq=False)
class SameStream:
    """A lane that ran on the kernels' own streams.

    Attributes:
        lane: copies between host and device, or communication.
        lane_ns: its time.
        compute: when kernels ran.
        both: when both did.
        on_kernel_streams: when the lane ran on streams that run kernels too.
        streams: those streams.
    """

    lane: Lane
    lane_ns: int
    compute: IntervalSet
    both: IntervalSet
    on_kernel_streams: IntervalSet
    streams: tuple[int, ...]

    @property
    def cost_ns(self) -> int:
        """The most that running them side by side could save: the smaller of both, less what is."""
        shorter = min(self.on_kernel_streams.length_ns, self.compute.length_ns)
        return max(0, shorter - self.both.length_ns)

    def cost_in(self, iterations: Iterations) -> Times:
        """Give the same of each iteration (int64 [n])."""
        start, end = iterations.start_ns, iterations.end_ns
        lane, compute, both = (
            intervals.length_within(one, start, end)
            for one in (self.on_kernel_streams, self.compute, self.both)
        )
        return np.maximum(0, np.minimum(lane, compute) - both)


def same_stream(trace: Trace, activity: DeviceActivity) -> list[SameStream]:
    """Find the lanes of a device that share the kernels' streams."""
    rows = trace.operations.select(
        "process", "device", "context", "stream", "lane", "direction", "start_ns", "end_ns"
    ).filter(
        (pl.col("process") == activity.process) & (pl.col("device") == activity.device) & has_time()
    )
    kernels = rows.filter(pl.col("lane") == Lane.COMPUTE.value)
    kernel_streams = kernels.select("context", "stream").unique()
    found = []
    for lane in (Lane.COPY, Lane.COMM):
        of_lane = rows.filter(pl.col("lane") == lane.value)
        if lane is Lane.COPY:
            of_lane = of_lane.filter(pl.col("direction").is_in(_ACROSS_THE_BUS))
        if of_lane.is_empty():
            continue
        shared = of_lane.join(kernel_streams, on=["context", "stream"], how="semi")
        covered, whole = _time(shared, activity), _time(of_lane, activity)
        if covered.length_ns == 0 or covered.length_ns < _SHARED_SHARE * whole.length_ns:
            continue
        compute = activity.lanes[Lane.COMPUTE]
        found.append(
            SameStream(
                lane,
                whole.length_ns,
                compute,
                intervals.intersect(whole, compute),
                covered,
                tuple(shared["stream"].unique().sort().drop_nulls().to_list()),
            )
        )
    return found


def _time(rows: pl.DataFrame, activity: DeviceActivity) -> IntervalSet:
    covered = intervals.union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
    return intervals.clip(covered, activity.start_ns, activity.end_ns)
