"""Cases of users that were measured on real traces; the names carry the numbers of the cases."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import overlapaudit as oa
from overlapaudit import intervals
from tests.support import audit_file, lanes

pytestmark = pytest.mark.traces

TRAINING = "h100x2_train_nccl_before.2026.2.sqlite"
LOADING = "h100x2_weight_load.2026.2.sqlite"


def test_a8_no_stream_is_4294967295(traces: Path) -> None:
    with oa.open_trace(traces / "nsys" / TRAINING) as trace:
        waits = trace.waits
    no_stream = waits.filter(pl.col("stream").is_null())
    assert no_stream["kind"].value_counts().rows() == [("query", 133)]
    assert waits["stream"].max() == 161


def test_b1_kernels_join_the_launches_of_their_process(traces: Path) -> None:
    """By the id alone 4,010 kernels make 4,280 rows."""
    with oa.open_trace(traces / "nsys" / TRAINING) as trace:
        kernels = trace.operations.filter(pl.col("kind") == "kernel")
        launched = kernels.drop_nulls("api_row")
        theirs = trace.api_calls["process"].gather(launched["api_row"])
    assert (kernels.height, launched.height) == (4_010, 3_986)
    assert (launched["process"] == theirs).all()


def test_b10_ranges_of_both_domains_have_text(traces: Path) -> None:
    with oa.open_trace(traces / "nsys" / TRAINING) as trace:
        counted = trace.ranges.group_by("domain_id").agg(
            pl.len(), (pl.col("text") != "").all().alias("named")
        )
    assert counted.sort("domain_id").rows() == [(0, 18_656, True), (1, 462, True)]


def test_d4_copies_are_no_idle_time(traces: Path) -> None:
    device = audit_file(traces / "nsys" / LOADING)["devices"][0]
    assert lanes(device) == {"compute": 22_385_163, "copy": 940_490_300, "memset": 14_784}
    assert (device["window_ns"], device["idle_ns"]) == (969_447_605, 6_557_358)


def test_d9_kernels_of_one_stream_overlap(traces: Path) -> None:
    """12,442 ns in which a stream runs two kernels: busy time counts them once."""
    with oa.open_trace(traces / "nsys" / TRAINING) as trace:
        kernels = trace.operations.filter(pl.col("kind") == "kernel")
        document = oa.audit(trace).to_dict()
    twice = 0
    for stream in kernels.partition_by("process", "context", "stream"):
        covered = intervals.union(stream["start_ns"].to_numpy(), stream["end_ns"].to_numpy())
        twice += (stream["end_ns"] - stream["start_ns"]).sum() - covered.length_ns
    assert twice == 12_442
    for device in document["devices"]:
        assert device["busy_ns"] + device["idle_ns"] == device["window_ns"]


def test_d12_kernels_that_start_before_the_call_returns_are_normal(traces: Path) -> None:
    with oa.open_trace(traces / "nsys" / TRAINING) as trace:
        kernels = trace.operations.filter(pl.col("kind") == "kernel").drop_nulls("api_row")
        returned = trace.api_calls["end_ns"].gather(kernels["api_row"])
        document = oa.audit(trace).to_dict()
    assert (kernels["start_ns"] < returned).sum() == 79
    assert document["coverage"]["clock_violations"] == 0


def test_e1_the_cause_is_the_stream_not_pageable_memory(traces: Path) -> None:
    document = audit_file(traces / "nsys" / LOADING)
    found = [one for one in document["findings"] if one["code"] == "OA201"]
    assert {one["evidence"]["on_kernel_streams_ns"] for one in found} == {920_762_021, 920_876_649}
    assert {one["cost_ns"] for one in found} == {22_385_163, 22_444_359}
    assert not [one for one in document["findings"] if one["code"] == "OA503"]
