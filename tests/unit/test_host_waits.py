"""Waits of the host: what they waited for, what the device did then, what kind they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import overlapaudit as oa
from overlapaudit.analysis.hidden_syncs import blocked_threads, in_window
from overlapaudit.analysis.host_holes import host_holes
from overlapaudit.analysis.idle_time import idle_times
from overlapaudit.analysis.lanes import device_activities
from overlapaudit.analysis.price import severity_of
from overlapaudit.analysis.thread_calls import thread_calls
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


def blocked(trace: oa.Trace) -> pl.DataFrame:
    """Find the blocked calls of a trace, with the idle time that each owns."""
    whole = device_activities(trace.operations, WHOLE_TRACE)
    extent = pl.DataFrame(
        [(one.process, one.device, one.first_ns, one.last_ns) for one in whole],
        schema=["process", "device", "first_ns", "last_ns"],
        orient="row",
    )
    calls = thread_calls(trace)
    idle = idle_times(trace, whole, {})
    links = resolve_waits(trace)
    return blocked_threads(trace, links, idle, extent, calls, host_holes(calls), {}, ())


@pytest.fixture
def waits(tmp_path: Path) -> Any:
    """Give (code, until_ns, idle_ns) of each wait of a trace with this content."""

    def found(window: str = "trace", **content: Any) -> list[Wait]:
        looked_at = WHOLE_TRACE if window == "trace" else parse_window(window)
        with oa.open_trace(make_trace(tmp_path / "trace.sqlite", **content)) as trace:
            rows = in_window(blocked(trace), looked_at).sort("start_ns", "call", "device")
            owned = pl.col("idle_end_ns") - pl.col("idle_start_ns")
            idle = pl.when(pl.col("device").is_not_null()).then(owned.fill_null(0))
            return rows.select("code", "until_ns", idle.alias("idle_ns")).rows()

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
    def with_launch_at(start_ns: int) -> list[Wait]:
        other = ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + 500, global_tid(1000, 5))
        found: list[Wait] = waits(
            kernels=[
                Kernel(10_000, 200_000, launch=launch(0)),
                Kernel(203_000, 220_000, stream=9, launch=other),
                AFTER,
            ],
            syncs=[Sync(5_000, 206_000, "stream_sync")],
        )
        return found

    assert with_launch_at(200_000) == [("OA502", 200_000, 3_000)]
    # The device had work in its queue when it fell idle: nobody kept it waiting.
    assert with_launch_at(199_999) == [("OA502", 200_000, 0)]


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
            Kernel(160_000, 200_000, launch=launch(154_000)),
        ],
        event_records=[EventRecord(2_000, 2_500, event_id=3)],
        syncs=[Sync(5_000, 153_000, "event_sync", event_id=3)],
    ) == [("OA502", 150_000, 10_000)]


def test_an_event_without_its_record_has_no_price(waits: Any) -> None:
    assert waits(
        kernels=[Kernel(10_000, 150_000, launch=launch(0))],
        syncs=[Sync(5_000, 153_000, "event_sync", event_id=3)],
    ) == [("OA502", None, None)]


def test_short_waits_are_none(waits: Any) -> None:
    kernels = [Kernel(10_000, 200_000, launch=launch(0)), AFTER]
    assert waits(kernels=kernels, syncs=[Sync(185_000, 204_999, "stream_sync")]) == []
    found = waits(kernels=kernels, syncs=[Sync(185_000, 205_000, "stream_sync")])
    assert found == [("OA502", 200_000, 50_000)]


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
    assert waits(window="100us..240us", **content) == [("OA502", 200_000, 40_000)]
    assert waits(window="210us..260us", **content) == [("OA502", 200_000, 40_000)]
    assert waits(window="250us..260us", **content) == []


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
    assert waits(api_calls=[free], **content) == [("OA505", None, 50_000)]
    beside_work = ApiCall("cudaMalloc_v3020", 100_000, 190_000)
    assert waits(api_calls=[beside_work], **content) == [("OA505", None, 0)]
    ordered = ApiCall("cudaFreeAsync_v11020", 100_000, 204_000)
    assert waits(api_calls=[ordered], **content) == []


def test_allocating_on_an_idle_device_costs_its_own_time(waits: Any) -> None:
    late = Kernel(400_000, 410_000, launch=launch(395_000))
    content = {"kernels": [Kernel(10_000, 200_000, launch=launch(0)), late]}
    # The launch follows within 50 µs: what is idle until the work starts belongs to the call.
    call = ApiCall("cudaHostAlloc_v3020", 250_000, 360_000)
    assert waits(api_calls=[call], **content) == [("OA505", None, 150_000)]
    call = ApiCall("cudaHostAlloc_v3020", 250_000, 340_000)
    assert waits(api_calls=[call], **content) == [("OA505", None, 90_000)]
    call = ApiCall("cudaHostAlloc_v3020", 450_000, 540_000)
    assert waits(api_calls=[call], **content) == []  # the device has done its last work


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
