"""What a trace holds, and how far its parts fit together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit.analysis.lanes import has_time
from overlapaudit.graph.event_links import Method
from overlapaudit.model.kinds import LAUNCHING_KINDS, ApiKind
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace

# GPU times are converted to the CPU clock with an error of up to about this much.
CLOCK_TOLERANCE_NS = 1_000
# Where so many of a process' graph launches have no GPU row, its idle time is not known.
_BLIND_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class WaitResolution:
    """Waits on an event by the method that found the record."""

    exact: int
    inferred: int
    unresolved: int
    by_method: dict[str, int]


@dataclass(frozen=True, slots=True)
class TraceCoverage:
    """Figures of one whole trace; None where the tables they need were not recorded.

    Attributes:
        operations: GPU operations.
        operations_with_launch: those whose API call is there.
        launches: API calls that put work on a GPU: kernel, copy, memset and graph launches that
            succeeded and were not part of a stream capture.
        launches_with_operation: those whose work is there.
        lost_launches: launches without work, where neither blind graphs nor a process without any
            GPU work explain it.
        late_launches: launches without work that began after the last work's own launch: the
            trace ended before the work.
        waits: waits on events.
        blind_graph_launches: for each process, graph launches of which no GPU row is there, where
            they are more than one of twenty: what the device did then is not known.
        lost_graph_launches: the same where they are fewer.
        clock_violations: operations that started before their launch, or ended before they began.
    """

    operations: int | None
    operations_with_launch: int | None
    launches: int | None
    launches_with_operation: int | None
    lost_launches: int | None
    late_launches: int | None
    waits: WaitResolution | None
    blind_graph_launches: dict[int, int]
    lost_graph_launches: dict[int, int]
    clock_violations: int | None


def measure(trace: Trace, links: pl.DataFrame) -> TraceCoverage:
    """Measure the coverage of a trace; `links` are from `resolve_waits`."""
    has_gpu_work = bool(trace.recording.operations)
    has_calls = TableName.API_CALLS in trace.recording.tables
    operations = trace.operations
    launches = _launches(trace) if has_calls else None
    blind, lost = ({}, {}) if launches is None else _graph_launches_without_work(launches, trace)
    return TraceCoverage(
        operations=operations.height if has_gpu_work else None,
        operations_with_launch=(
            operations.height - operations["api_row"].null_count()
            if has_gpu_work and has_calls
            else None
        ),
        launches=None if launches is None else launches.count,
        launches_with_operation=(
            launches.worked.height if launches is not None and has_gpu_work else None
        ),
        lost_launches=(
            _lost(launches, trace, blind, lost) if launches is not None and has_gpu_work else None
        ),
        late_launches=_late(launches) if launches is not None and has_gpu_work else None,
        waits=_waits(trace, links),
        blind_graph_launches=blind,
        lost_graph_launches=lost,
        clock_violations=_clock_violations(trace) if has_gpu_work and has_calls else None,
    )


@dataclass(frozen=True, slots=True)
class _Launches:
    """Launching calls: those whose work is in the trace, and those without.

    `worked` has `process`, `start_ns`, `kind`; `without` has `call` and `thread` too.
    """

    worked: pl.DataFrame
    without: pl.DataFrame

    @property
    def count(self) -> int:
        return self.worked.height + self.without.height


def _launches(trace: Trace) -> _Launches:
    calls = trace.api_calls
    has_work = np.zeros(calls.height, dtype=np.bool_)
    has_work[trace.operations["api_row"].drop_nulls().to_numpy()] = True
    worked = pl.Series(has_work)
    launching = pl.col("kind").is_in(LAUNCHING_KINDS) & (pl.col("returned").fill_null(0) == 0)
    without = (
        calls.select("kind", "process", "thread", "start_ns", "returned", "correlation")
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("call"))
        .filter(launching & ~worked)
        .drop("returned")
    )
    if not without.is_empty():
        # A driver call inside a runtime call has its id: both are one launch.
        seen = calls.select("process", "correlation").filter(worked)
        without = without.join(seen, on=["process", "correlation"], how="anti").filter(
            pl.col("correlation").is_null()
            | pl.struct("process", "correlation").is_first_distinct()
        )
        without = without.join(_captured(calls, without), on="call", how="anti")
    return _Launches(calls.select("kind", "process", "start_ns").filter(worked), without)


def _captured(calls: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """Give the candidates made while their thread captured a stream: they launch nothing."""
    is_begin = pl.col("kind") == ApiKind.CAPTURE_BEGIN.value
    marks = calls.filter(is_begin | (pl.col("kind") == ApiKind.CAPTURE_END.value))
    if marks.is_empty():
        return candidates.select("call").clear()
    return (
        candidates.sort("start_ns")
        .join_asof(
            marks.select("thread", "start_ns", is_begin.alias("capturing")).sort("start_ns"),
            on="start_ns",
            by="thread",
            check_sortedness=False,
        )
        .filter(pl.col("capturing").fill_null(False))
        .select("call")
    )


def _lost(launches: _Launches, trace: Trace, blind: dict[int, int], lost: dict[int, int]) -> int:
    working = trace.operations["process"].unique().drop_nulls()
    known = launches.without.filter(pl.col("process").is_in(working.implode()))
    return known.height - sum(blind.values()) - sum(lost.values())


def _late(launches: _Launches) -> int:
    """Count launches without work that began after the last one with work."""
    if launches.without.is_empty():
        return 0
    last = launches.worked.group_by("process").agg(pl.col("start_ns").max().alias("last"))
    joined = launches.without.join(last, on="process", how="left")
    return joined.filter(pl.col("start_ns") > pl.col("last")).height


def _graph_launches_without_work(
    launches: _Launches, trace: Trace
) -> tuple[dict[int, int], dict[int, int]]:
    """Count the graph launches without work by process: blind processes, and the others.

    Launches after the last one with work are left out: the trace ended before they ran.
    """
    is_graph = pl.col("kind") == ApiKind.GRAPH_LAUNCH.value
    worked = dict(launches.worked.filter(is_graph).group_by("process").len().rows())
    without = launches.without.filter(is_graph)
    if without.is_empty():
        return {}, {}
    last = (
        launches.worked.filter(is_graph)
        .group_by("process")
        .agg(pl.col("start_ns").max().alias("last"))
    )
    early = without.join(last, on="process", how="left").filter(
        (pl.col("start_ns") <= pl.col("last")).fill_null(True)
    )
    # Nodes whose launch was cut off are there all the same: their process is not blind.
    nodes = trace.operations.select("process", "graph_node", "graph", "api_row").filter(
        (pl.col("graph_node").is_not_null() | pl.col("graph").is_not_null())
        & pl.col("api_row").is_null()
    )
    replayed = set(nodes["process"].unique())
    counted = early.group_by("process").len().sort("process").rows()
    blind = {
        process: count
        for process, count in counted
        if process not in replayed and count >= _BLIND_SHARE * (count + worked.get(process, 0))
    }
    lost = {process: count for process, count in counted if process not in blind}
    return blind, lost


def _waits(trace: Trace, links: pl.DataFrame) -> WaitResolution | None:
    """Count waits on events; None where neither their table nor the API calls were recorded."""
    if not trace.recording.tables & {TableName.WAITS, TableName.API_CALLS}:
        return None
    counted = dict(
        links["method"].drop_nulls().cast(pl.String).value_counts().sort("method").rows()
    )
    exact = sum(n for method, n in counted.items() if Method(method).is_exact)
    return WaitResolution(
        exact=exact,
        inferred=sum(counted.values()) - exact,
        unresolved=links["method"].null_count(),
        by_method=counted,
    )


def _clock_violations(trace: Trace) -> int:
    operations = trace.operations.select("start_ns", "end_ns", "api_row")
    backwards = operations.filter(pl.col("end_ns") < pl.col("start_ns")).height
    launched = trace.api_calls["start_ns"].gather(operations["api_row"]).alias("launched_ns")
    early = operations.with_columns(launched).filter(
        has_time() & (pl.col("start_ns") < pl.col("launched_ns") - CLOCK_TOLERANCE_NS)
    )
    return backwards + early.height
