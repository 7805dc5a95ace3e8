"""Iterations of an engine: windows of time that partition the run of a process.

A window ends where the GPU work of its step ends, and begins where the window before ended, so
that work which an engine launches ahead still belongs to the step that launched it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from overlapaudit.model.kinds import RangeKind
from overlapaudit.model.trace import Trace
from overlapaudit.model.window import WHOLE_TRACE
from overlapaudit.spans.launches import LaunchOrder
from overlapaudit.spans.nesting import NEVER_NS, outermost
from overlapaudit.spans.span_table import spans_of

Numbers = npt.NDArray[np.int64]

_LEVEL, _STEP = "iteration", "step"
# The phases whose GPU work makes a step's window end; without them it is that of the whole step.
_FORWARD = ("model", "sample")
_OWN_ENGINE = "overlapaudit"
_THREAD_BITS = 0xFFFFFF


@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """The iterations of one process, in the order of time; their windows touch and do not overlap.

    Attributes:
        id: int64 [n], the number that the engine gave, else a running number.
        start_ns: int64 [n].
        end_ns: int64 [n], beyond `start_ns`.
    """

    id: Numbers
    start_ns: Numbers
    end_ns: Numbers

    def __len__(self) -> int:
        return len(self.id)

    def inside(self, start_ns: int, end_ns: int) -> Iterations:
        """Give those that lie wholly in [start_ns, end_ns): a cut one is no iteration."""
        keep = (self.start_ns >= start_ns) & (self.end_ns <= end_ns)
        return Iterations(self.id[keep], self.start_ns[keep], self.end_ns[keep])


def iterations(trace: Trace, launched: LaunchOrder) -> Mapping[int, Iterations]:
    """Find the iterations of each process (globalPid) that has markers of steps with GPU work.

    Only markers make steps. A step that was not closed, or without GPU work, has no window.

    Args:
        trace: where to look.
        launched: its operations by launch.
    """
    forward = _forward_ranges(trace)
    if forward.is_empty():
        return {}
    steps = outermost(forward.filter(pl.col("phase") == _STEP), ["phase"])
    steps = steps.drop_nulls("closed_ns")
    phases = forward.filter(pl.col("phase") != _STEP)
    phases = phases.with_columns(step_row=_step_of(phases, steps)).drop_nulls("step_row")
    whole = steps.filter(~pl.col("range_row").is_in(phases["step_row"].implode())).with_columns(
        step_row="range_row"
    )
    columns = ["range_row", "thread", "start_ns", "end_ns", "step_row"]
    asked = pl.concat([phases.select(columns), whole.select(columns)])
    spans = spans_of(asked, launched, trace.operations, WHOLE_TRACE)
    ends = (
        spans.join(asked.select("range_row", "step_row"), on="range_row")
        .group_by("step_row")
        .agg(pl.col("gpu_end_ns").max())
    )
    worked = steps.join(ends, left_on="range_row", right_on="step_row").sort(
        "process", "start_ns", "range_row"
    )
    return {
        process: found
        for (process,), of_process in worked.partition_by(
            "process", as_dict=True, maintain_order=True
        ).items()
        if len(found := _windows(of_process))
    }


def _forward_ranges(trace: Trace) -> pl.DataFrame:
    """Give steps and their forward phases; our own markers where a process has them."""
    phase = pl.col("phase")
    of_steps = (pl.col("level") == _LEVEL) & pl.any_horizontal(
        phase == one for one in (_STEP, *_FORWARD)
    )
    rows = trace.ranges.with_row_index("range_row").filter(
        of_steps
        & (pl.col("kind") != RangeKind.MARK.value)
        & pl.col("thread").is_not_null()
        & pl.col("start_ns").is_not_null()
    )
    found = rows.select(
        pl.col("range_row").cast(pl.Int64),
        "kind", "thread", "start_ns", "key",
        pl.col("domain_id").fill_null(0),
        pl.col("end_ns").fill_null(NEVER_NS),
        phase.cast(pl.String),
        closed_ns="end_ns",
        process=pl.col("thread") - (pl.col("thread") & _THREAD_BITS),
        own=(pl.col("engine") == _OWN_ENGINE).fill_null(False),
    )  # fmt: skip
    own_step = pl.col("own") & (phase == _STEP)
    return found.filter(pl.col("own") == own_step.any().over("process"))


def _step_of(phases: pl.DataFrame, steps: pl.DataFrame) -> pl.Series:
    """Give the step that each phase lies in on its thread, else the one of its number."""
    nested = (
        phases.select("thread", "start_ns")
        .with_row_index("asked")
        .sort("start_ns")
        .join_asof(
            steps.select("thread", "start_ns", step_row="range_row", step_end_ns="end_ns").sort(
                "start_ns"
            ),
            on="start_ns",
            by="thread",
            check_sortedness=False,
        )
        .sort("asked")
    )
    inside = nested.select(
        pl.when(pl.col("start_ns") < pl.col("step_end_ns")).then("step_row")
    ).to_series()
    numbered_steps = (
        steps.filter(pl.col("kind") == RangeKind.PUSH_POP.value)
        .select("process", "key", by_key="range_row")
        .drop_nulls()
        .unique(["process", "key"], keep="none")
    )
    by_key = phases.join(numbered_steps, on=["process", "key"], how="left", maintain_order="left")
    return pl.select(pl.coalesce(inside, by_key["by_key"])).to_series()


def _windows(steps: pl.DataFrame) -> Iterations:
    """Lay the steps of a process end to end; a step that ended before another adds no window."""
    reached = np.maximum.accumulate(steps["gpu_end_ns"].to_numpy())
    first = steps["start_ns"].to_numpy()[0]
    starts = np.concatenate([[first], reached[:-1]])
    keys = steps["key"]
    unique = keys.null_count() == 0 and keys.n_unique() == len(keys)
    number = keys.to_numpy() if unique else np.arange(len(keys), dtype=np.int64)
    holds = reached > starts
    return Iterations(number[holds], starts[holds], reached[holds])
