"""Lanes, idle time and overlap of hand-made traces, to the ns."""

from __future__ import annotations

import pytest

import overlapaudit as oa
from tests.support import audit_of, copies, lanes, only_device, overlaps, pair
from tests.tracebuilder import (
    Copy,
    Decompression,
    GraphLaunch,
    Kernel,
    Memset,
    global_pid,
)

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_lanes_and_idle() -> None:
    device = only_device(
        audit_of(
            kernels=[Kernel(100, 200), Kernel(150, 260), Kernel(300, 340, name=NCCL, stream=9)],
            copies=[Copy(250, 280, "h2d", stream=10), Copy(390, 400, "d2h", stream=10)],
            memsets=[Memset(340, 345)],
        )
    )
    assert device["window_ns"] == 300
    assert lanes(device) == {"compute": 160, "comm": 40, "copy": 40, "memset": 5}
    assert copies(device) == {"h2d": 30, "d2h": 10}
    assert device["busy_ns"] == 235
    assert device["idle_ns"] == 65
    assert device["exposed"] == {"compute": 150, "comm": 40, "copy": 30, "memset": 5, "graph": 0}
    assert overlaps(device) == {"compute&copy": 10, "compute&h2d": 10}
    assert pair(device, "compute", "copy") == {
        "a": "compute",
        "b": "copy",
        "a_ns": 160,
        "b_ns": 40,
        "overlap_ns": 10,
        "exposed_a_ns": 150,
        "exposed_b_ns": 30,
    }


def test_pairs_are_those_of_which_both_sides_are_there() -> None:
    device = only_device(
        audit_of(kernels=[Kernel(0, 10)], copies=[Copy(20, 30, "h2d"), Copy(20, 30, "p2p")])
    )
    named = [(one["a"], one["b"]) for one in device["overlap"]]
    assert named == [
        ("comm", "comm"),
        ("comm", "compute"),
        ("comm", "copy"),
        ("comm", "h2d"),
        ("compute", "compute"),
        ("compute", "copy"),
        ("compute", "h2d"),
        ("compute", "p2p"),
        ("copy", "copy"),
        ("copy", "p2p"),
        ("h2d", "h2d"),
        ("h2d", "p2p"),
        ("p2p", "p2p"),
    ]  # no lane with a direction inside it


@pytest.mark.parametrize(
    ("direction", "lane", "named"),
    [
        ("h2d", "copy", "h2d"),
        ("d2h", "copy", "d2h"),
        ("d2d", "copy", "d2d"),
        ("h2h", "copy", "h2h"),
        ("p2p", "comm", "p2p"),
        (3, "copy", "h2d"),  # host to array
        (4, "copy", "d2h"),
        (5, "copy", "d2d"),
        (6, "copy", "d2d"),
        (7, "copy", "d2d"),
        (11, "copy", "h2d"),  # managed memory
        (12, "copy", "d2h"),
        (13, "copy", "d2d"),
    ],
)
def test_copy_directions(direction: int | str, lane: str, named: str) -> None:
    device = only_device(audit_of(copies=[Copy(5, 12, direction)]))  # type: ignore[arg-type]
    assert lanes(device) == {lane: 7}
    assert copies(device) == {named: 7}


def test_an_unknown_kind_of_copy_is_a_copy_without_direction() -> None:
    device = only_device(audit_of(copies=[Copy(5, 12, 99)]))
    assert lanes(device) == {"copy": 7}
    assert copies(device) == {}


def test_itself_means_across_streams() -> None:
    same = only_device(audit_of(kernels=[Kernel(0, 10), Kernel(5, 15)]))
    assert overlaps(same) == {}
    other = only_device(audit_of(kernels=[Kernel(0, 10), Kernel(5, 15, stream=8)]))
    assert overlaps(other) == {"compute&compute": 5}


def test_equal_stream_numbers_of_two_contexts_are_two_streams() -> None:
    device = only_device(audit_of(kernels=[Kernel(0, 10), Kernel(5, 15, context=2)]))
    assert overlaps(device) == {"compute&compute": 5}


def test_directions_overlap_across_engines() -> None:
    device = only_device(
        audit_of(
            copies=[
                Copy(0, 100, "h2d", stream=13),
                Copy(60, 150, "d2h", stream=14),
                Copy(90, 95, "h2d", stream=15),
            ]
        )
    )
    assert overlaps(device) == {"copy&copy": 40, "d2h&h2d": 40, "h2d&h2d": 5}


def test_opaque_graph_is_busy_not_idle() -> None:
    document = audit_of(
        kernels=[Kernel(0, 10), Kernel(90, 100)], graph_launches=[GraphLaunch(10, 90)]
    )
    device = only_device(document)
    assert lanes(device) == {"compute": 20, "graph": 80}
    assert device["idle_ns"] == 0
    assert document["coverage"]["opaque_graph_ns"] == 80


def test_graph_launches_without_any_row_are_unknown_not_idle() -> None:
    # Exports before 2024 hold no row for a graph that was recorded as a whole.
    document = audit_of(
        schema="2023.4",
        kernels=[Kernel(0, 10), Kernel(90, 100)],
        graph_launches=[GraphLaunch(10, 90)],
    )
    device = only_device(document)
    assert device["window_ns"] == 100
    assert device["busy_ns"] is device["idle_ns"] is None
    assert device["lanes"]["compute"] == 20
    assert device["lanes"]["graph"] is device["exposed"]["graph"] is None
    assert any("idle_ns" in gap["what"] for gap in document["coverage"]["not_recorded"])


def test_decompression_is_a_copy() -> None:
    device = only_device(audit_of(schema="2026.4", decompressions=[Decompression(3, 11)]))
    assert lanes(device) == {"copy": 8}


def test_lane_is_zero_where_only_its_table_is_missing() -> None:
    device = only_device(audit_of(kernels=[Kernel(0, 10)]))
    assert device["lanes"] == {"compute": 10, "comm": 0, "copy": 0, "memset": 0, "graph": 0}


def test_all_is_null_where_gpu_work_was_not_traced() -> None:
    document = audit_of()
    assert document["devices"] is None
    assert document["coverage"]["operations"] is None
    assert document["coverage"]["opaque_graph_ns"] is None


def test_work_without_time_counts_but_takes_none() -> None:
    document = audit_of(kernels=[Kernel(0, 0), Kernel(50, 60)])
    device = only_device(document)
    assert document["coverage"]["operations"] == 2
    assert device["window_ns"] == 10
    assert device["busy_ns"] == 10


def test_only_work_without_time() -> None:
    device = only_device(audit_of(kernels=[Kernel(0, 0)]))
    assert (device["window_ns"], device["busy_ns"], device["idle_ns"]) == (0, 0, 0)


def test_work_of_no_length_is_no_time_but_bounds_the_window() -> None:
    device = only_device(audit_of(kernels=[Kernel(10, 20), Kernel(70, 70)]))
    assert (device["window_ns"], device["busy_ns"], device["idle_ns"]) == (60, 10, 50)


def test_negative_times() -> None:
    device = only_device(audit_of(kernels=[Kernel(-500, -400), Kernel(-10, 20)]))
    assert (device["window_ns"], device["busy_ns"]) == (520, 130)


def test_each_process_has_its_own_devices_and_streams() -> None:
    one, two = global_pid(1001), global_pid(1002)
    document = audit_of(
        kernels=[
            Kernel(0, 10, process=two, correlation=5),
            Kernel(5, 15, process=one, correlation=5),
            Kernel(5, 25, process=one, device=1, context=2),
        ]
    )
    found = [(d["process"], d["rank"], d["device"], d["busy_ns"]) for d in document["devices"]]
    assert found == [(one, 0, 0, 10), (one, 0, 1, 20), (two, 1, 0, 10)]
    assert document["coverage"]["operations_with_launch"] == 3


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("0ns..1s", (100, 60, {"compute": 40, "copy": 20}, {})),
        ("115ns..155ns", (40, 25, {"compute": 20, "copy": 5}, {})),
        ("0.000115ms..0.155us", (40, 25, {"compute": 20, "copy": 5}, {})),
        ("150ns..160ns", (10, 10, {"copy": 10}, {})),
        ("199ns..10s", (1, 1, {"compute": 1}, {})),
        ("120ns..150ns", (30, 15, {"compute": 15}, {})),
    ],
)
def test_windows_clip(
    window: str, expected: tuple[int, int, dict[str, int], dict[str, int]]
) -> None:
    device = only_device(
        audit_of(
            window=window,
            kernels=[Kernel(100, 120), Kernel(130, 145), Kernel(195, 200)],
            copies=[Copy(150, 170, "h2d")],
        )
    )
    window_ns, busy_ns, by_lane, at_once = expected
    assert device["window_ns"] == window_ns
    assert device["busy_ns"] == busy_ns
    assert device["idle_ns"] == window_ns - busy_ns
    assert lanes(device) == by_lane
    assert overlaps(device) == at_once


def test_a_window_without_gpu_work_is_refused() -> None:
    with pytest.raises(oa.UsageError, match="100ns to 120ns"):
        audit_of(window="1us..2us", kernels=[Kernel(100, 120)])


def test_a_device_idle_in_the_window_of_another() -> None:
    document = audit_of(
        window="0ns..50ns", kernels=[Kernel(0, 40), Kernel(60, 90, device=1, context=2)]
    )
    assert [device["window_ns"] for device in document["devices"]] == [40, 0]


def test_coverage_and_opaque_time_are_of_the_whole_trace() -> None:
    document = audit_of(
        window="0ns..15ns", kernels=[Kernel(0, 10)], graph_launches=[GraphLaunch(10, 90)]
    )
    assert only_device(document)["lanes"]["graph"] == 5
    assert document["coverage"]["opaque_graph_ns"] == 80
    assert document["coverage"]["operations"] == 2
