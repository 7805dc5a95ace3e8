"""Known facts of real traces about hidden waits, shared streams and ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import overlapaudit as oa
from overlapaudit.model.tables import TableName
from overlapaudit.model.window import WHOLE_TRACE
from overlapaudit.spans.launches import by_capture, by_launch
from overlapaudit.spans.nesting import innermost, numbered, stacked
from overlapaudit.spans.span_table import spans_of
from tests.support import audit_file

pytestmark = pytest.mark.traces


def document(traces: Path, name: str) -> dict[str, Any]:
    return audit_file(traces / "nsys" / f"{name}.sqlite")


def test_small_pageable_copies_cost_what_is_idle_after_them(traces: Path) -> None:
    found = [
        one
        for one in document(traces, "h100x2_train_nccl_before.2026.2")["hidden_syncs"]
        if one["code"] == "OA503"
    ]
    assert sum(one["count"] for one in found) == 33
    # The host stood still for 324 ms, the devices for 3 ms.
    assert sum(one["host_wait_ns"] for one in found) == 324_534_733
    assert sum(one["gpu_idle_ns"] for one in found) == 3_013_532


def test_copies_on_the_kernels_stream(traces: Path) -> None:
    audit = document(traces, "h100x2_weight_load.2026.2")
    same = [one for one in audit["findings"] if one["code"] == "OA201"]
    assert [one["where"]["rank"] for one in same] == [1, 0]
    assert all(one["evidence"]["lane"] == "copy" for one in same)
    assert all(one["evidence"]["overlap_ns"] == 0 for one in same)
    assert not [one for one in audit["findings"] if one["code"] == "OA503"]
    assert not [one for one in audit["hidden_syncs"] if one["code"] == "OA503"]


def test_ranges_that_say_overlap_do(traces: Path) -> None:
    with oa.open_trace(traces / "nsys" / "a100_serial_then_overlap.2023.4.sqlite") as trace:
        ranges = numbered(trace.ranges)
        order = by_launch(trace.operations, trace.api_calls)
        spans = spans_of(ranges, order, trace.operations, WHOLE_TRACE)
        first, last = order.slices(
            ranges["thread"].to_numpy(), ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()
        )
        sums = {}
        for row, begin, end in zip(ranges["range_row"], first, last, strict=True):
            work = trace.operations[order.operation[begin:end]]
            sums[row] = (work["end_ns"] - work["start_ns"]).sum()
        hidden = {
            row["range_row"]: sums[row["range_row"]] - row["busy_ns"]
            for row in spans.rows(named=True)
        }
        named = dict(zip(trace.ranges["text"].to_list(), range(trace.ranges.height), strict=True))
    overlapping = next(row for text, row in named.items() if "overlapped" in text)
    serial = next(row for text, row in named.items() if text.startswith("serial b"))
    assert hidden[serial] == 0
    assert hidden[overlapping] == 21_893_381  # all the overlap that the trace has


@pytest.mark.parametrize("version", ["2023.4", "2024.2"])
def test_replayed_nodes_carry_the_range_of_their_capture(traces: Path, version: str) -> None:
    with oa.open_trace(traces / "nsys" / f"v100_graph_nodes_events.{version}.sqlite") as trace:
        captured = by_capture(trace.operations, trace.table(TableName.GRAPH_NODES))
        at = pl.DataFrame({"thread": captured.thread, "time_ns": captured.launched_ns})
        rows = innermost(stacked(trace.ranges), at)
    assert len(rows) == 266
    assert rows.null_count() == 0
