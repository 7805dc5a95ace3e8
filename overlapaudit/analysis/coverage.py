"""What a trace holds, and how far its parts fit together."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from overlapaudit.analysis.lanes import has_time
from overlapaudit.graph.event_links import Method, resolve_waits
from overlapaudit.model.kinds import LAUNCHING_KINDS, ApiKind
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace

# GPU times are converted to the CPU clock with an error of up to about this much.
CLOCK_TOLERANCE_NS = 1_000


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
        late_launches: launches without work that began after the last work's own launch: the
            trace ended before the work.
        waits: waits on events.
        blind_graph_launches: for each process, graph launches of which no GPU row is there,
            in processes where no graph launch has one.
        lost_graph_launches: the same in processes where some have.
        clock_violations: operations that started before their launch, or ended before they began.
    """

    operations: int | None
    operations_with_launch: int | None
    launches: int | None
    launches_with_operation: int | None
    late_launches: int | None
    waits: WaitResolution | None
    blind_graph_launches: dict[int, int]
    lost_graph_launches: dict[int, int]
    clock_violations: int | None


def measure(trace: Trace) -> TraceCoverage:
    """Measure the coverage of a trace."""
    has_gpu_work = bool(trace.recording.operations)
    has_calls = TableName.API_CALLS in trace.recording.tables
    operations = trace.operations
    launches = _launches(trace) if has_calls else None
    blind, lost = ({}, {}) if launches is None else _graph_launches_without_work(launches)
    return TraceCoverage(
        operations=operations.height if has_gpu_work else None,
        operations_with_launch=(
            operations.height - operations["api_row"].null_count()
            if has_gpu_work and has_calls
            else None
        ),
        launches=None if launches is None else launches.height,
        launches_with_operation=(
            int(launches["has_work"].sum()) if launches is not None and has_gpu_work else None
        ),
        late_launches=_late(launches) if launches is not None and has_gpu_work else None,
        waits=_waits(trace),
        blind_graph_launches=blind,
        lost_graph_launches=lost,
        clock_violations=_clock_violations(trace) if has_gpu_work else None,
    )


def _launches(trace: Trace) -> pl.DataFrame:
    """Give the launching calls, with whether their work is in the trace."""
    calls = trace.api_calls
    worked = pl.Series("call", trace.operations["api_row"].drop_nulls().unique())
    numbered = calls.select("kind", "process", "thread", "start_ns", "returned").with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("call")
    )
    has_work = pl.repeat(False, calls.height, dtype=pl.Boolean, eager=True)
    has_work = has_work.scatter(worked, True) if len(worked) else has_work
    numbered = numbered.with_columns(has_work.alias("has_work"))
    launching = pl.col("kind").is_in(LAUNCHING_KINDS) & (pl.col("returned").fill_null(0) == 0)
    without = numbered.filter(launching & ~pl.col("has_work"))
    without = without.join(_captured(numbered, without), on="call", how="anti")
    return pl.concat([numbered.filter("has_work"), without])


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


def _late(launches: pl.DataFrame) -> int:
    last = (
        launches.filter("has_work").group_by("process").agg(pl.col("start_ns").max().alias("last"))
    )
    joined = launches.filter(~pl.col("has_work")).join(last, on="process", how="left")
    return joined.filter(pl.col("start_ns") > pl.col("last")).height


def _graph_launches_without_work(
    launches: pl.DataFrame,
) -> tuple[dict[int, int], dict[int, int]]:
    counted = (
        launches.filter(pl.col("kind") == ApiKind.GRAPH_LAUNCH.value)
        .group_by("process")
        .agg((~pl.col("has_work")).sum().alias("without"), pl.len().alias("all"))
        .filter(pl.col("without") > 0)
        .sort("process")
    )
    blind = {p: n for p, n, total in counted.rows() if n == total}
    lost = {p: n for p, n, total in counted.rows() if n < total}
    return blind, lost


def _waits(trace: Trace) -> WaitResolution | None:
    """Count waits on events; None where neither their table nor the API calls were recorded."""
    if not trace.recording.tables & {TableName.WAITS, TableName.API_CALLS}:
        return None
    links = resolve_waits(trace)
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
