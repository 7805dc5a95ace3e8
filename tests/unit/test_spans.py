"""Nesting of ranges and attribution of GPU work to them, against brute force."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overlapaudit as oa
from overlapaudit.model.tables import RANGES, TableName
from overlapaudit.model.window import WHOLE_TRACE, parse_window
from overlapaudit.spans import nesting, span_table
from overlapaudit.spans.launches import by_capture, by_launch
from overlapaudit.spans.span_table import spans_of
from tests.tracebuilder import (
    ApiCall,
    GraphNode,
    Kernel,
    Range,
    global_tid,
    graph_node_id,
    make_trace,
)

LENGTH = 40


@dataclass(frozen=True)
class Opened:
    """A pushed range of a stack (thread, domain)."""

    thread: int
    domain: int
    start: int
    end: int
    depth: int


@st.composite
def stacks(draw: st.DrawFn) -> list[Opened]:
    """Draw ranges that nest properly within each (thread, domain)."""
    found: list[Opened] = []

    def fill(thread: int, domain: int, start: int, end: int, depth: int) -> None:
        at = start
        while at < end and len(found) < 25 and draw(st.booleans()):
            begin = draw(st.integers(at, end))
            stop = draw(st.integers(begin, end))
            found.append(Opened(thread, domain, begin, stop, depth))
            if depth < 4:
                fill(thread, domain, begin, stop, depth + 1)
            at = stop

    for thread in (1, 2):
        for domain in (0, 7):
            fill(thread, domain, 0, LENGTH, 0)
    return found


def frame(ranges: list[Opened]) -> pl.DataFrame:
    rows = [
        {
            "kind": "push_pop",
            "text": f"depth {one.depth}",
            "thread": one.thread,
            "domain_id": one.domain,
            "start_ns": one.start,
            "end_ns": one.end,
        }
        for one in ranges
    ]
    return pl.DataFrame(rows, schema=RANGES)


@given(stacks())
def test_innermost(ranges: list[Opened]) -> None:
    at = pl.DataFrame({"thread": [1, 2, 3] * LENGTH, "time_ns": sorted([*range(LENGTH)] * 3)})
    found = nesting.innermost(nesting.stacked(frame(ranges)), at).to_list()
    for (thread, time_ns), row in zip(at.rows(), found, strict=True):
        # Of the ranges of a domain that hold this moment the deepest is innermost (the one drawn
        # last where two are equal); of two domains the later start.
        holding = [
            (one.start, number)
            for domain in (0, 7)
            for number in [
                max(
                    (
                        number
                        for number, one in enumerate(ranges)
                        if (one.thread, one.domain) == (thread, domain)
                        and one.start <= time_ns < one.end
                    ),
                    key=lambda number: ranges[number].depth,
                    default=-1,
                )
            ]
            if number >= 0
            for one in [ranges[number]]
        ]
        if not holding:
            assert row is None
        else:
            assert row is not None
            assert (ranges[row].start, row) == max(holding)


@given(stacks())
def test_outermost(ranges: list[Opened]) -> None:
    kinds = frame(ranges).with_columns(pl.col("text").alias("phase"))
    found = nesting.outermost(nesting.numbered(kinds), ["phase"])["range_row"].to_list()
    for number, one in enumerate(ranges):
        if one.start == one.end:
            continue
        same = [
            other
            for index, other in enumerate(ranges)
            if index != number
            and other.start < other.end
            and (other.thread, other.domain, other.depth) == (one.thread, one.domain, one.depth)
        ]
        # Ranges of one depth never hold each other: all of them are outermost.
        assert all(other.end <= one.start or other.start >= one.end for other in same)
        assert number in found


def test_outermost_of_equal_kind() -> None:
    nested = [Opened(1, 0, 0, 10, 0), Opened(1, 0, 2, 5, 0), Opened(1, 0, 10, 12, 0)]
    kinds = frame(nested).with_columns(phase="text")
    found = nesting.outermost(nesting.numbered(kinds), ["phase"])
    assert found["range_row"].to_list() == [0, 2]


work = st.lists(
    st.tuples(
        st.sampled_from([1, 2]),  # thread
        st.integers(0, LENGTH - 1),  # launched
        st.integers(0, 30),  # waits
        st.integers(0, 20),  # lasts
    ),
    max_size=15,
)


@settings(deadline=None)
@given(stacks(), work, st.sampled_from(["trace", "20ns..50ns"]))
def test_attribution(
    ranges: list[Opened], launches: list[tuple[int, int, int, int]], window: str
) -> None:
    calls = pl.DataFrame(
        {
            "thread": [thread for thread, *_ in launches],
            "start_ns": [launched for _, launched, *_ in launches],
            "end_ns": [launched + 1 for _, launched, *_ in launches],
        },
        schema={"thread": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )
    times = [(launched + waits, launched + waits + lasts) for _, launched, waits, lasts in launches]
    operations = pl.DataFrame(
        {
            "start_ns": [start for start, _ in times],
            "end_ns": [end for _, end in times],
            "api_row": list(range(len(times))),
        },
        schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "api_row": pl.Int64},
    )
    looked_at = parse_window(window)
    low, high = (0, 10**6) if looked_at.start_ns is None else (20, 50)
    found = spans_of(
        nesting.numbered(frame(ranges)), by_launch(operations, calls), operations, looked_at
    )
    measured = {row["range_row"]: row for row in found.rows(named=True)}
    assert list(measured) == sorted(measured)
    for number, one in enumerate(ranges):
        mine = [
            (max(start, low), min(end, high))
            for (thread, launched, *_), (start, end) in zip(launches, times, strict=True)
            if thread == one.thread
            and one.start <= launched < one.end
            and end > low
            and start < high
        ] if looked_at.start_ns is not None else [
            time
            for (thread, launched, *_), time in zip(launches, times, strict=True)
            if thread == one.thread and one.start <= launched < one.end
        ]  # fmt: skip
        assert (number in measured) is bool(mine)
        if mine:
            row = measured[number]
            assert row["operations"] == len(mine)
            assert row["gpu_start_ns"] == min(start for start, _ in mine)
            assert row["gpu_end_ns"] == max(end for _, end in mine)
            covered = {ns for start, end in mine for ns in range(start, end)}
            assert row["busy_ns"] == len(covered)


@given(stacks(), work, st.booleans())
def test_the_compiled_loop_measures_the_same(
    ranges: list[Opened], launches: list[tuple[int, int, int, int]], give_up: bool
) -> None:
    calls = pl.DataFrame(
        {
            "thread": [thread for thread, *_ in launches],
            "start_ns": [launched for _, launched, *_ in launches],
            "end_ns": [launched for _, launched, *_ in launches],
        },
        schema={"thread": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )
    # Far from in order: 50 operations later launched run earlier.
    late = 1_000 if give_up else 0
    times = [
        (
            launched + waits + late * (LENGTH - launched),
            launched + waits + lasts + late * (LENGTH - launched),
        )
        for _, launched, waits, lasts in launches
    ]
    operations = pl.DataFrame(
        {
            "start_ns": [start for start, _ in times],
            "end_ns": [end for _, end in times],
            "api_row": list(range(len(times))),
        },
        schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "api_row": pl.Int64},
    )
    order = by_launch(operations, calls)
    spans = nesting.numbered(frame(ranges))
    plain = spans_of(spans, order, operations, WHOLE_TRACE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(span_table, "_COMPILED_FROM_PAIRS", 0)
        assert spans_of(spans, order, operations, WHOLE_TRACE).equals(plain)


def test_what_is_far_from_in_order_is_measured_too() -> None:
    count = 200  # each of them would be moved to the front
    calls = pl.DataFrame({"thread": [1] * count, "start_ns": range(count), "end_ns": range(count)})
    operations = pl.DataFrame(
        {
            "start_ns": [10_000 - 10 * n for n in range(count)],
            "end_ns": [10_004 - 10 * n for n in range(count)],
            "api_row": list(range(count)),
        }
    )
    ranges = nesting.numbered(frame([Opened(1, 0, 0, 1_000, 0), Opened(1, 0, 5, 7, 1)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(span_table, "_COMPILED_FROM_PAIRS", 0)
        found = spans_of(ranges, by_launch(operations, calls), operations, WHOLE_TRACE)
    assert found["busy_ns"].to_list() == [4 * count, 8]


def opened_trace(tmp_path: Path, **content: Any) -> oa.Trace:
    return oa.open_trace(make_trace(tmp_path / "trace.sqlite", **content))


def test_many_ranges_are_measured_in_parts(tmp_path: Path, monkeypatch: Any) -> None:
    kernels = [
        Kernel(1_000_000 + n * 10, 1_000_005 + n * 10, launch=ApiCall("cudaLaunchKernel", n, n + 1))
        for n in range(50)
    ]
    with opened_trace(
        tmp_path, kernels=kernels, ranges=[Range("r", n, 50) for n in range(50)]
    ) as trace:
        ranges = nesting.numbered(trace.ranges)
        order = by_launch(trace.operations, trace.api_calls)
        whole = spans_of(ranges, order, trace.operations, WHOLE_TRACE)
        monkeypatch.setattr(span_table, "_PAIRS_AT_ONCE", 7)
        assert spans_of(ranges, order, trace.operations, WHOLE_TRACE).equals(whole)
        monkeypatch.setattr(span_table, "_COMPILED_FROM_PAIRS", 0)
        assert spans_of(ranges, order, trace.operations, WHOLE_TRACE).equals(whole)
    assert whole["operations"].to_list() == list(range(50, 0, -1))
    assert whole["busy_ns"].to_list() == [5 * n for n in range(50, 0, -1)]


def test_graph_nodes_by_their_capture(tmp_path: Path) -> None:
    worker = global_tid(1000, 5)
    with opened_trace(
        tmp_path,
        kernels=[
            # Node 1 of graph 3 is a copy of a copy; node 2 has no row.
            Kernel(10_000, 11_000, correlation=1, graph_node=graph_node_id(3, 1)),
            Kernel(11_000, 12_000, correlation=1, graph_node=graph_node_id(3, 2)),
        ],
        graph_nodes=[
            GraphNode(graph_node_id(1, 1), start_ns=105, thread=worker),
            GraphNode(graph_node_id(2, 1), graph_node_id(1, 1), start_ns=300),
            GraphNode(graph_node_id(3, 1), start_ns=400),
            GraphNode(graph_node_id(3, 1), graph_node_id(2, 1), start_ns=400),
        ],
        ranges=[Range("layer", 100, 110, thread=worker), Range("instantiate", 290, 500)],
    ) as trace:
        captured = by_capture(trace.operations, trace.table(TableName.GRAPH_NODES))
        assert captured.operation.tolist() == [0]
        at = pl.DataFrame({"thread": captured.thread, "time_ns": captured.launched_ns})
        spans = spans_of(
            nesting.numbered(trace.ranges),
            captured,
            trace.operations,
            WHOLE_TRACE,
            each_launch=True,
        )
        assert spans.rows() == [(0, 0, 1, 10_000, 11_000, 1_000)]
        rows = nesting.innermost(nesting.stacked(trace.ranges), at)
        assert trace.ranges["text"].gather(rows).to_list() == ["layer"]
