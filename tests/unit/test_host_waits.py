"""Waits of the host: what they waited for, what the device did then, what kind they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from overlapaudit.analysis.host_waits import host_waits
from overlapaudit.analysis.price import severity_of
from overlapaudit.analysis.wait_rules import codes_of
from overlapaudit.graph.event_links import resolve_waits
from overlapaudit.model.kinds import Severity
from overlapaudit.model.window import WHOLE_TRACE, parse_window
from tests.tracebuilder import (
    ApiCall,
    Copy,
    EventRecord,
    Kernel,
    Sync,
    global_tid,
    make_trace,
)

Wait = tuple[str, int | None, int | None]


@pytest.fixture
def waits(tmp_path: Path) -> Any:
    """Give (code, until_ns, idle_ns) of each wait of a trace with this content."""

    def found(window: str = "trace", **content: Any) -> list[Wait]:
        looked_at = WHOLE_TRACE if window == "trace" else parse_window(window)
        with oa.open_trace(make_trace(tmp_path / "trace.sqlite", **content)) as trace:
            rows = host_waits(trace, looked_at, resolve_waits(trace))
            codes = codes_of(trace, rows).to_list()
            return [
                (code, row["until_ns"], row["idle_ns"])
                for code, row in zip(codes, rows.rows(named=True), strict=True)
            ]

    return found


def launch(start_ns: int) -> ApiCall:
    return ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + 1_000)


def copying(name: str, start_ns: int, end_ns: int) -> ApiCall:
    return ApiCall(name, start_ns, end_ns)


AFTER = Kernel(250_000, 300_000, launch=launch(240_000))


def test_a_stream_sync_is_priced_by_what_is_idle_after_it(waits: Any) -> None:
    assert waits(
        kernels=[Kernel(10_000, 200_000, launch=launch(0)), AFTER],
        syncs=[Sync(5_000, 206_000, "stream_sync")],
    ) == [("OA502", 200_000, 50_000)]


def test_work_of_another_stream_makes_it_free(waits: Any) -> None:
    assert waits(
        kernels=[
            Kernel(10_000, 200_000, launch=launch(0)),
            Kernel(150_000, 210_000, stream=9, launch=launch(1_000)),
            AFTER,
        ],
        syncs=[Sync(5_000, 206_000, "stream_sync")],
    ) == [("OA502", 200_000, 0)]


def test_idle_ends_with_work_that_any_thread_launched(waits: Any) -> None:
    other = ApiCall("cudaLaunchKernel_v7000", 100_000, 101_000, global_tid(1000, 5))
    assert waits(
        kernels=[
            Kernel(10_000, 200_000, launch=launch(0)),
            Kernel(203_000, 220_000, stream=9, launch=other),
            AFTER,
        ],
        syncs=[Sync(5_000, 206_000, "stream_sync")],
    ) == [("OA502", 200_000, 3_000)]


def test_only_work_launched_before_is_waited_for(waits: Any) -> None:
    later = ApiCall("cudaLaunchKernel_v7000", 150_000, 151_000, global_tid(1000, 5))
    assert waits(
        kernels=[
            Kernel(10_000, 200_000, launch=launch(0)),
            Kernel(200_000, 205_000, launch=later),
            AFTER,
        ],
        syncs=[Sync(5_000, 206_000, "stream_sync")],
    ) == [("OA502", 200_000, 0)]


def test_a_device_sync_waits_for_all_streams(waits: Any) -> None:
    assert waits(
        kernels=[
            Kernel(10_000, 150_000, launch=launch(0)),
            Kernel(10_000, 200_000, stream=9, launch=launch(1_000)),
            AFTER,
        ],
        syncs=[Sync(5_000, 206_000, "device_sync")],
    ) == [("OA502", 200_000, 50_000)]


def test_an_event_sync_waits_for_what_was_before_the_record(waits: Any) -> None:
    assert waits(
        kernels=[
            Kernel(10_000, 150_000, launch=launch(0)),
            Kernel(160_000, 200_000, launch=launch(4_000)),
        ],
        event_records=[EventRecord(2_000, 2_500, event_id=3)],
        syncs=[Sync(5_000, 153_000, "event_sync", event_id=3)],
    ) == [("OA502", 150_000, 10_000)]


def test_an_event_without_its_record_has_no_price(waits: Any) -> None:
    assert waits(
        kernels=[Kernel(10_000, 150_000, launch=launch(0))],
        syncs=[Sync(5_000, 153_000, "event_sync", event_id=3)],
    ) == [("OA502", None, None)]


@pytest.mark.parametrize(("returns", "idle"), [(204_999, 0), (205_000, 50_000)])
def test_short_waits_cost_nothing(waits: Any, returns: int, idle: int) -> None:
    kernels = [Kernel(10_000, 200_000, launch=launch(0)), AFTER]
    found = waits(kernels=kernels, syncs=[Sync(185_000, returns, "stream_sync")])
    assert found == [("OA502", 200_000, idle)]


def test_a_wait_for_work_that_had_ended_costs_nothing(waits: Any) -> None:
    assert waits(
        kernels=[Kernel(10_000, 90_000, launch=launch(0)), AFTER],
        syncs=[Sync(100_000, 206_000, "stream_sync")],
    ) == [("OA502", 90_000, 0)]


def test_idle_time_has_one_owner(waits: Any) -> None:
    assert waits(
        kernels=[Kernel(10_000, 200_000, launch=launch(0)), AFTER],
        syncs=[
            Sync(6_000, 206_000, "stream_sync", thread=global_tid(1000, 5)),
            Sync(5_000, 206_500, "stream_sync"),
        ],
    ) == [("OA502", 200_000, 50_000), ("OA502", 200_000, 0)]


def test_nothing_is_idle_after_the_last_operation(waits: Any) -> None:
    assert waits(
        kernels=[Kernel(10_000, 200_000, launch=launch(0))],
        syncs=[Sync(5_000, 206_000, "stream_sync")],
    ) == [("OA502", 200_000, 0)]


def test_clocks_that_differ_a_little(waits: Any) -> None:
    # The operation seems to end 7 µs after the call that waited for it returned.
    assert waits(
        kernels=[Kernel(10_000, 200_000, launch=launch(0)), AFTER],
        syncs=[Sync(5_000, 193_000, "stream_sync")],
    ) == [("OA502", 200_000, 50_000)]


def test_a_window_cuts_the_price(waits: Any) -> None:
    content = {
        "kernels": [Kernel(10_000, 200_000, launch=launch(0)), AFTER],
        "syncs": [Sync(5_000, 206_000, "stream_sync")],
    }
    assert waits(window="100us..260us", **content) == [("OA502", 200_000, 50_000)]
    assert waits(window="100us..240us", **content) == [("OA502", 200_000, 0)]
    assert waits(window="210us..260us", **content) == []


@pytest.mark.parametrize(
    ("copy", "code"),
    [
        (Copy(100_000, 101_000, "d2h", 8), "OA501"),
        (Copy(100_000, 101_000, "d2h", 4_096, dst_kind="pageable"), "OA501"),
        (Copy(100_000, 101_000, "d2h", 4_097), "OA502"),
        (Copy(100_000, 101_000, "d2h", 4_097, dst_kind="pageable"), "OA503"),
        (Copy(100_000, 101_000, "h2d", 8, src_kind="pageable"), "OA503"),
        (Copy(100_000, 101_000, "h2d", 8), "OA502"),
    ],
)
def test_a_wait_belongs_to_the_copy_before_it(waits: Any, copy: Copy, code: str) -> None:
    sync = Sync(150_000, 180_000, "stream_sync")
    ahead = Kernel(104_000, 170_000, launch=launch(50_000))
    found = waits(kernels=[ahead, AFTER], copies=[copy], syncs=[sync])
    # Its own launch ends at 98 µs, 52 µs before the wait: too long ago.
    assert [one[0] for one in found] == ["OA502"]
    sync = Sync(147_000, 180_000, "stream_sync")
    found = waits(kernels=[ahead, AFTER], copies=[copy], syncs=[sync])
    assert [one[0] for one in found] == [code]


def test_a_kernel_between_copy_and_wait_parts_them(waits: Any) -> None:
    found = waits(
        kernels=[Kernel(110_000, 200_000, launch=launch(102_000)), AFTER],
        copies=[Copy(100_000, 101_000, "d2h", 8)],
        syncs=[Sync(110_000, 206_000, "stream_sync")],
    )
    assert found == [("OA502", 200_000, 50_000)]


@pytest.mark.parametrize(
    ("name", "copy", "expected"),
    [
        ("cudaMemcpy_v3020", {"direction": "h2d"}, [("OA510", 150_000, 100_000)]),
        ("cudaMemcpy_v3020", {"direction": "d2h", "bytes": 8}, [("OA501", 150_000, 100_000)]),
        (
            "cudaMemcpyAsync_v3020",
            {"direction": "d2h", "dst_kind": "pageable"},
            [("OA503", 150_000, 100_000)],
        ),
        ("cudaMemcpyAsync_v3020", {"direction": "d2h"}, []),  # pinned: the call was only slow
    ],
)
def test_copies_that_block(
    waits: Any, name: str, copy: dict[str, Any], expected: list[Wait]
) -> None:
    call = copying(name, 100_000, 152_000)
    assert waits(copies=[Copy(105_000, 150_000, launch=call, **copy)], kernels=[AFTER]) == expected


def test_a_copy_that_returned_before_it_began_did_not_block(waits: Any) -> None:
    call = copying("cudaMemcpyAsync_v3020", 50_000, 99_000)
    copy = Copy(105_000, 150_000, "h2d", src_kind="pageable", launch=call)
    assert waits(copies=[copy], kernels=[AFTER]) == []


def test_freeing_waits_for_the_device(waits: Any) -> None:
    content = {"kernels": [Kernel(10_000, 200_000, launch=launch(0)), AFTER]}
    free = ApiCall("cudaFree_v3020", 100_000, 204_000)
    assert waits(api_calls=[free], **content) == [("OA505", 200_000, 50_000)]
    unrelated = ApiCall("cudaMalloc_v3020", 100_000, 190_000)
    assert waits(api_calls=[unrelated], **content) == []
    ordered = ApiCall("cudaFreeAsync_v11020", 100_000, 204_000)
    assert waits(api_calls=[ordered], **content) == []


@pytest.mark.parametrize(
    ("cost", "window", "severity"),
    [
        (0, 0, Severity.INFO),
        (19_999, 1_000_000, Severity.INFO),
        (20_000, 4_000_000, Severity.WARNING),
        (20_000, 4_000_001, Severity.INFO),
        (99_999, 1_000_000, Severity.WARNING),
        (100_000, 1_000_000, Severity.ERROR),
    ],
)
def test_severity_follows_the_price(cost: int, window: int, severity: Severity) -> None:
    assert severity_of(cost, window) is severity
