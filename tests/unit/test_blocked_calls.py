"""Calls that hold a thread up: OA505, OA506, OA507 and OA509, and whose the idle time is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import overlapaudit as oa
from overlapaudit import intervals
from overlapaudit.analysis.idle_time import own_idle_time
from tests.support import audit_of, codes, finding
from tests.tracebuilder import (
    DEFAULT_PROCESS,
    DEFAULT_THREAD,
    ApiCall,
    Copy,
    EventRecord,
    GraphLaunch,
    Kernel,
    Overhead,
    Range,
    Sync,
    global_pid,
    global_tid,
    graph_node_id,
    main_thread,
    nvtx_domain,
)

US, MS = 1_000, 1_000_000
WORKER = global_tid(1000, 7)
OTHER = global_pid(77)
OURS = nvtx_domain("overlapaudit", 1)
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"

# (code, api, calls, time of the host in them, idle time of the devices)
Site = tuple[str, str, int, int, int | None]


def sites(**content: Any) -> list[Site]:
    """Give the threads of a trace like this that were held up; streams that were are left out."""
    return [
        (one["code"], one["api"], one["count"], one["host_wait_ns"], one["gpu_idle_ns"])
        for one in audit_of(**content)["hidden_syncs"]
        if one["code"] != "OA504"
    ]


def kernel(launched_us: float, start_us: float, end_us: float, **more: Any) -> Kernel:
    """Give a kernel whose launch takes 2 µs."""
    name, thread = more.pop("name", "gemm"), more.pop("thread", None)
    call = ApiCall(
        "cudaLaunchKernel_v7000", ns(launched_us), ns(launched_us) + 2 * US, thread=thread
    )
    return Kernel(ns(start_us), ns(end_us), name, launch=call, **more)


def call(name: str, start_us: float, end_us: float, **more: Any) -> ApiCall:
    return ApiCall(name, ns(start_us), ns(end_us), **more)


def ns(us: float) -> int:
    return round(us * US)


# The device works until 200 µs, and again from 500 µs on: launched at 495 µs.
FIRST = kernel(0, 10, 200)
AGAIN = kernel(495, 500, 600)
TWO = [FIRST, AGAIN]


# --- OA505: allocating and freeing ---


@pytest.mark.parametrize(
    "name",
    [
        "cudaMalloc_v3020",
        "cudaMallocHost_v3020",
        "cudaHostAlloc_v3020",
        "cudaFree_v3020",
        "cudaFreeHost_v3020",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuMemCreate",
        "cuMemRelease",
        "cudaHostRegister_v4000",
    ],
)
def test_the_allocator_of_the_driver(name: str) -> None:
    found = audit_of(kernels=TWO, api_calls=[call(name, 150, 480)])
    ((code, idle_ns),) = [(one["code"], one["gpu_idle_ns"]) for one in found["hidden_syncs"]]
    # From when the device fell idle in the call until it worked again.
    assert (code, idle_ns) == ("OA505", 300 * US)
    assert finding(found, "OA505")["confidence"] == "proven"


@pytest.mark.parametrize(
    "name",
    ["cudaMallocAsync_v11020", "cudaFreeAsync_v11020", "cuMemAllocAsync", "cudaGetDevice_v3020"],
)
def test_what_waits_for_nothing(name: str) -> None:
    assert sites(kernels=TWO, api_calls=[call(name, 150, 480)]) == []


@pytest.mark.parametrize("name", ["cuMemUnmap", "cudaMemPoolTrimTo_v11020", "cuMemPoolTrimTo"])
def test_a_pool_that_is_trimmed(name: str) -> None:
    found = sites(kernels=TWO, api_calls=[call(name, 150, 480)])
    assert [one[0] for one in found] == ["OA505"]


def test_calls_of_less_than_20_us_are_none() -> None:
    def of(end_us: float) -> list[Site]:
        return sites(kernels=TWO, api_calls=[call("cudaMalloc_v3020", 300, end_us)])

    assert of(319.999) == []
    assert of(320) == [("OA505", "cudaMalloc", 1, 20_000, 20_000)]


def test_a_call_on_an_idle_device_costs_until_it_returns_or_the_work_behind_it_starts() -> None:
    def of(end_us: float) -> int | None:
        (found,) = sites(kernels=TWO, api_calls=[call("cudaMalloc_v3020", 250, end_us)])
        return found[4]

    # 50 µs and more until the device works again: the thread did something else after the call.
    assert of(450) == 200 * US
    assert of(450.001) == 250 * US
    assert of(449.999) == 199_999


def test_a_call_in_which_the_device_fell_idle_costs_from_then_on() -> None:
    def of(start_us: float) -> int | None:
        (found,) = sites(kernels=TWO, api_calls=[call("cudaMalloc_v3020", start_us, 300)])
        return found[4]

    assert of(199.999) == 300 * US
    assert of(200) == 100 * US  # it had been idle already


def test_a_call_beside_work_costs_nothing() -> None:
    free = call("cudaFree_v3020", 100, 190)
    assert sites(kernels=TWO, api_calls=[free]) == [("OA505", "cudaFree", 1, 90 * US, 0)]
    # Nor does one that returns when the device works again.
    free = call("cudaFree_v3020", 400, 500)
    assert sites(kernels=TWO, api_calls=[free])[0][4] == 0


def test_clocks_may_differ_by_2_us() -> None:
    def of(end_us: float) -> int | None:
        (found,) = sites(kernels=TWO, api_calls=[call("cudaFree_v3020", 100, end_us)])
        return found[4]

    # The device seems to fall idle a little after the call that waited for it has returned.
    assert of(198) == 300 * US
    assert of(197.999) == 0


def test_calls_before_the_first_and_after_the_last_work_hold_up_nothing() -> None:
    shifted = [kernel(205, 210, 400), kernel(695, 700, 800)]

    def of(start_us: float, end_us: float) -> list[str]:
        malloc = call("cudaMalloc_v3020", start_us, end_us)
        return [one[0] for one in sites(kernels=shifted, api_calls=[malloc])]

    assert of(100, 210) == []
    assert of(100, 210.001) == ["OA505"]
    assert of(800, 900) == []
    assert of(799.999, 900) == ["OA505"]


def test_a_driver_call_inside_a_runtime_call_counts_once() -> None:
    calls = [call("cudaMalloc_v3020", 250, 350), call("cuMemAlloc_v2", 255, 345)]
    assert sites(kernels=TWO, api_calls=calls) == [("OA505", "cudaMalloc", 1, 100 * US, 100 * US)]
    # One on another thread is another call.
    calls[1] = replace(calls[1], thread=WORKER)
    found = sites(kernels=TWO, api_calls=calls)
    assert sorted(found) == [
        ("OA505", "cuMemAlloc_v2", 1, 90 * US, 90 * US),
        ("OA505", "cudaMalloc", 1, 100 * US, 5 * US),
    ]


def test_a_call_holds_up_every_device_of_its_process_once() -> None:
    theirs = main_thread(OTHER)
    second = [kernel(4, 10, 260, device=1, context=2), kernel(505, 510, 600, device=1, context=2)]
    other = [kernel(0, 10, 100, process=OTHER), kernel(495, 500, 600, process=OTHER)]
    free = call("cudaFree_v3020", 150, 480)
    found = sites(kernels=[*TWO, *second, *other], api_calls=[free])
    # 300 µs of the one and 250 µs of the other; the other process is not concerned.
    assert found == [("OA505", "cudaFree", 1, 330 * US, 550 * US)]
    free = replace(free, thread=theirs)
    assert sites(kernels=[*TWO, *other], api_calls=[free])[0][4] == 350 * US


def steps(*edges_us: int, thread: int = DEFAULT_THREAD) -> list[Range]:
    """Give steps between these moments."""
    domain = nvtx_domain("overlapaudit", 1, process=thread - (thread & 0xFFFFFF))
    return [
        domain,
        *(
            Range("iteration.step", ns(start), ns(end), thread=thread, domain=1, payload=number)
            for number, (start, end) in enumerate(pairwise(edges_us))
        ),
    ]


THREE = [kernel(0, 10, 200), kernel(295, 300, 400), kernel(595, 600, 700), kernel(895, 900, 999)]


def test_what_begins_before_the_end_of_the_first_iteration_is_part_of_starting() -> None:
    # The first iteration ends when its work ends, at 400 µs.
    ranges = steps(290, 450, 800, 898)
    for name, code in (("cudaMalloc_v3020", "OA505"), ("cuModuleLoadData", "OA507")):
        for start_us, expected in ((230, []), (399.999, []), (400, [code]), (430, [code])):
            calls = [call(name, start_us, start_us + 50)]
            found = sites(kernels=THREE, ranges=ranges, api_calls=calls)
            assert [one[0] for one in found] == expected
            # Without steps nothing tells starting from serving.
            assert [one[0] for one in sites(kernels=THREE, api_calls=calls)] == [code]


def test_each_process_starts_for_itself() -> None:
    theirs = main_thread(OTHER)
    others = [replace(one, process=OTHER) for one in THREE]
    calls = [call("cudaMalloc_v3020", 230, 280), call("cudaMalloc_v3020", 230, 280, thread=theirs)]
    content: dict[str, Any] = {"kernels": [*THREE, *others], "api_calls": calls}
    ranges = steps(290, 450, 800, 898)
    found = audit_of(ranges=ranges, **content)["hidden_syncs"]
    assert [one["process"] for one in found] == [OTHER]
    # Their first iteration ends at 200 µs.
    found = audit_of(ranges=[*ranges, *steps(-1, 150, 450, thread=theirs)], **content)
    assert [one["process"] for one in found["hidden_syncs"]] == [OTHER]
    found = audit_of(ranges=[*ranges, *steps(290, 450, thread=theirs)], **content)
    assert found["hidden_syncs"] == []


# --- OA507: loading, compiling, capturing, building ---


@pytest.mark.parametrize(
    "name",
    [
        "cuModuleLoadData",
        "cuModuleLoadDataEx",
        "cuLibraryLoadData",
        "cuLibraryGetKernel",
        "cuLinkAddData_v2",
        "cuModuleUnload",
        "cudaGraphInstantiate_v12000",
        "cudaGraphInstantiateWithFlags_v11040",
        "cudaGraphUpload_v10000",
        "cuGraphInstantiateWithParams",
    ],
)
def test_loading_and_building(name: str) -> None:
    document = audit_of(kernels=TWO, api_calls=[call(name, 150, 480)])
    found = finding(document, "OA507")
    assert (found["cost_ns"], found["confidence"]) == (300 * US, "proven")
    assert codes(document).count("OA505") == 0
    assert sites(kernels=TWO, api_calls=[call(name, 150, 169.999)]) == []
    assert len(sites(kernels=TWO, api_calls=[call(name, 150, 170)])) == 1


def capture(start_us: float, end_us: float, **more: Any) -> list[ApiCall]:
    """Give a capture whose begin and end take 1 µs each."""
    return [
        call("cudaStreamBeginCapture_v10000", start_us, start_us + 1, **more),
        call("cudaStreamEndCapture_v10000", end_us - 1, end_us, **more),
    ]


def test_a_capture_counts_from_its_begin_to_its_end() -> None:
    found = sites(kernels=TWO, api_calls=capture(220, 480))
    assert found == [("OA507", "cudaStreamBeginCapture", 1, 260 * US, 280 * US)]
    assert sites(kernels=TWO, api_calls=capture(220, 239.999)) == []
    assert len(sites(kernels=TWO, api_calls=capture(220, 240))) == 1


def test_what_is_captured_and_loaded_inside_a_capture_is_part_of_it() -> None:
    inside = [
        call("cudaLaunchKernel_v7000", 230, 300),
        call("cuModuleLoadData", 310, 400),
        call("cudaLaunchKernel_v7000", 405, 410),
    ]
    found = sites(kernels=TWO, api_calls=[*capture(220, 480), *inside])
    assert found == [("OA507", "cudaStreamBeginCapture", 1, 260 * US, 280 * US)]
    behind = call("cudaGraphInstantiate_v12000", 481, 493)
    found = sites(kernels=TWO, api_calls=[*capture(220, 480), *inside, behind])
    assert len(found) == 1  # shorter than 20 µs
    found = sites(kernels=TWO, api_calls=[*capture(220, 460), replace(behind, start_ns=462 * US)])
    assert found == [
        ("OA507", "cudaStreamBeginCapture", 1, 240 * US, 242 * US),
        ("OA507", "cudaGraphInstantiate", 1, 31 * US, 38 * US),
    ]


def test_a_capture_needs_both_ends_on_one_thread() -> None:
    begin, end = capture(220, 480)
    assert sites(kernels=TWO, api_calls=[begin]) == []
    assert sites(kernels=TWO, api_calls=[end]) == []
    assert sites(kernels=TWO, api_calls=[begin, replace(end, thread=WORKER)]) == []
    # Captures of two threads cross.
    theirs = capture(230, 470, thread=WORKER)
    found = audit_of(kernels=TWO, api_calls=[begin, *theirs, end])["hidden_syncs"]
    assert {one["thread"]: one["host_wait_ns"] for one in found} == {
        DEFAULT_THREAD: 260 * US,
        WORKER: 240 * US,
    }


def test_a_capture_inside_a_capture_is_part_of_it() -> None:
    found = sites(kernels=TWO, api_calls=[*capture(220, 480), *capture(300, 310)])
    assert found == [("OA507", "cudaStreamBeginCapture", 1, 260 * US, 280 * US)]


@pytest.mark.parametrize(
    ("kind", "counts"), [(2, True), (6, True), (7, True), (1, False), (8, False)]
)
def test_the_profiler_saw_the_driver_load(kind: int, counts: bool) -> None:
    def of(end_us: float, **more: Any) -> list[Site]:
        called = call("cudaFuncGetAttributes_v3020", 150, end_us, correlation=500)
        seen = Overhead(160 * US, 165 * US, kind, "what it was", **{"correlation": 500, **more})
        return sites(kernels=TWO, api_calls=[called], overheads=[seen])

    expected = [("OA507", "cudaFuncGetAttributes", 1, 330 * US, 300 * US)] if counts else []
    assert of(480) == expected
    assert of(169.999) == []
    assert of(480, correlation=501) == []
    assert of(480, correlation=None) == []
    assert of(480, thread=main_thread(OTHER)) == []  # ids count for each process
    assert of(480, thread=WORKER) == expected


def first_launch(start_us: float, end_us: float, kernel_us: float, **more: Any) -> Kernel:
    """Give a kernel that was launched by a call of this length, when the device was idle."""
    name = more.pop("name", "other")
    launching = call("cudaLaunchKernel_v7000", start_us, end_us)
    return Kernel(ns(kernel_us), ns(kernel_us) + 50 * US, name, launch=launching, **more)


def test_a_long_first_launch_that_left_the_device_idle_loaded_its_kernel() -> None:
    loads = first_launch(220, 490, 495)
    document = audit_of(kernels=[FIRST, loads, kernel(600, 605, 700)])
    found = finding(document, "OA507")
    assert (found["confidence"], found["evidence"]["api"]) == ("inferred", "cudaLaunchKernel")
    assert found["cost_ns"] == 275 * US
    # From 50 µs on.
    for end_us, count in ((269.999, 0), (270, 1)):
        one = first_launch(220, end_us, 300)
        assert len(sites(kernels=[FIRST, one, kernel(600, 605, 700)])) == count


def test_a_later_launch_loads_nothing() -> None:
    later = first_launch(220, 490, 495, name="gemm")  # as the first of all
    assert sites(kernels=[FIRST, later]) == []
    # The first launch counts, whichever ran first.
    ran_before = Kernel(210 * US, 215 * US, "other", stream=9, launch=call("cudaLaunch", 480, 481))
    assert len(sites(kernels=[FIRST, first_launch(220, 490, 495), ran_before])) == 1
    # The same kernel of another process is another one.
    theirs = kernel(0, 10, 600, name="other", process=OTHER)
    assert len(sites(kernels=[FIRST, first_launch(220, 490, 495), theirs])) == 1


def test_a_long_first_launch_to_a_busy_device_may_have_had_other_reasons() -> None:
    busy = kernel(100, 200, 600, stream=9)
    assert sites(kernels=[FIRST, busy, first_launch(220, 490, 650)]) == []
    # Idle before, but at work again when the call returns.
    busy = kernel(100, 400, 600, stream=9)
    assert sites(kernels=[FIRST, busy, first_launch(220, 490, 650)]) == []


@pytest.mark.xfail(strict=True, reason="a device that works when the call returns was never idle")
@pytest.mark.parametrize("kernel_us", [489, 490])
def test_a_first_kernel_may_start_before_its_launch_returns(kernel_us: int) -> None:
    found = sites(kernels=[FIRST, first_launch(220, 490, kernel_us), kernel(600, 605, 700)])
    assert found == [("OA507", "cudaLaunchKernel", 1, 270 * US, (kernel_us - 200) * US - 20 * US)]


def test_what_the_profiler_saw_goes_before_what_is_concluded() -> None:
    loads = replace(first_launch(220, 490, 495), correlation=900)
    seen = Overhead(230 * US, 480 * US, 7, "Lazy Function Loading", correlation=900)
    document = audit_of(kernels=[FIRST, loads, kernel(600, 605, 700)], overheads=[seen])
    found = finding(document, "OA507")
    assert (found["confidence"], found["evidence"]["calls"]) == ("proven", 1)
    assert found["cost_ns"] == 275 * US


def test_the_first_launch_of_a_graph_uploads_it() -> None:
    def replay(start_us: float, end_us: float, graph_us: float, graph: int) -> GraphLaunch:
        launching = call("cudaGraphLaunch_v10000", start_us, end_us)
        return GraphLaunch(ns(graph_us), ns(graph_us) + 50 * US, graph=graph, launch=launching)

    short = replay(0, 3, 10, 1)
    again = replay(100, 300, 305, 1)
    other = replay(100, 300, 305, 2)
    assert sites(graph_launches=[short, again]) == []
    assert sites(graph_launches=[short, other]) == [
        ("OA507", "cudaGraphLaunch", 1, 200 * US, 205 * US)
    ]


def test_the_first_launch_of_a_graph_that_was_traced_by_nodes() -> None:
    def replay(start_us: float, end_us: float, kernel_us: float, graph: int) -> list[Kernel]:
        launching = call("cudaGraphLaunch_v10000", start_us, end_us)
        return [
            Kernel(
                ns(kernel_us) + n * 10 * US,
                ns(kernel_us) + n * 10 * US + 10 * US,
                f"node {n}",
                graph_node=graph_node_id(graph, n),
                correlation=1_000 + round(start_us),
                launch=launching if n == 0 else None,
            )
            for n in range(3)
        ]

    # Its kernels ran before, in another graph: what counts is the graph.
    kernels = [*replay(0, 3, 10, 5), *replay(100, 300, 305, 6)]
    assert sites(kernels=kernels) == [("OA507", "cudaGraphLaunch", 1, 200 * US, 205 * US)]
    kernels = [*replay(0, 3, 10, 5), *replay(100, 300, 305, 5)]
    assert sites(kernels=kernels) == []


# --- OA506: waiting for communication ---


def comm_wait(*others: Kernel, **more: Any) -> list[Site]:
    """Wait for stream 9, on which a collective ran."""
    collective = kernel(4, 10, 200, name=NCCL, stream=9)
    sync = Sync(20 * US, 206 * US, "stream_sync", stream=9)
    return sites(kernels=[collective, *others, AGAIN], syncs=[sync], **more)


def test_a_wait_for_a_stream_of_communication_alone() -> None:
    expected = ("cudaStreamSynchronize", 1, 186 * US, 300 * US)
    assert comm_wait() == [("OA506", *expected)]
    # Copies and memsets there do not matter, nor compute on another stream of the same number.
    copy = Copy(1 * US, 2 * US, "d2d", stream=9, launch=call("cudaMemcpyAsync_v3020", -2, -1))
    assert comm_wait(copies=[copy]) == [("OA506", *expected)]
    other = kernel(-5, 1, 2, stream=9, context=3)
    assert comm_wait(other) == [("OA506", *expected)]
    # Compute there does: it is a wait like any other.
    assert comm_wait(kernel(-5, 1, 2, stream=9)) == [("OA502", *expected)]
    assert comm_wait(kernel(650, 700, 800, stream=9))[0][0] == "OA502"


def test_a_wait_for_an_event_on_a_stream_of_communication() -> None:
    content: dict[str, Any] = {
        "kernels": [kernel(4, 10, 200, name=NCCL, stream=9), AGAIN],
        "syncs": [Sync(20 * US, 206 * US, "event_sync", event_id=3)],
    }
    record = EventRecord(12 * US, 13 * US, event_id=3, stream=9)
    expected = ("cudaEventSynchronize", 1, 186 * US, 300 * US)
    assert sites(event_records=[record], **content) == [("OA506", *expected)]
    content["kernels"].append(kernel(-5, 1, 2, stream=9))
    assert sites(event_records=[record], **content) == [("OA502", *expected)]


def test_a_scalar_read_behind_communication_stays_one() -> None:
    copy = Copy(
        201 * US, 202 * US, "d2h", 8, stream=9, launch=call("cudaMemcpyAsync_v3020", 15, 17)
    )
    found = comm_wait(copies=[copy])
    assert [one[0] for one in found] == ["OA501"]


def silent(
    periods: int = 4,
    *,
    wakes_ns: int = 10 * US,
    missed: Sequence[int] = (),
    lasts_us: int = 190,
    launched_us: float = 0,
    begins_us: float = 4,
) -> dict[str, Any]:
    """Give periods of 4 ms with a hole behind an event record, which ends after a collective.

    The collective is launched, the hole begins behind the record, the collective ends at 200 µs,
    and the thread launches work `wakes_ns` later (200 µs later in the periods missed).
    """
    kernels, records = [], []
    for n in range(periods):
        at = n * 4 * MS
        wakes = at + 200 * US + (200 * US if n in missed else wakes_ns)
        comm = ApiCall("cudaLaunchKernel_v7000", at + ns(launched_us), at + ns(launched_us) + US)
        kernels.append(
            Kernel(at + (200 - lasts_us) * US, at + 200 * US, NCCL, stream=9, launch=comm)
        )
        records.append(EventRecord(at + ns(begins_us) - 500, at + ns(begins_us), event_id=1))
        then = ApiCall("cudaLaunchKernel_v7000", wakes, wakes + US)
        kernels.append(Kernel(wakes + 5 * US, at + 3900 * US, "gemm", launch=then))
    return {"kernels": kernels, "event_records": records}


def of_comm(content: dict[str, Any], **more: Any) -> list[Site]:
    return [one for one in sites(**{**content, **more}) if one[0] == "OA506"]


def test_holes_that_end_when_a_collective_ends() -> None:
    content = silent()
    assert of_comm(content) == [("OA506", "cudaEventRecord", 4, 4 * 206 * US, 4 * 15 * US)]
    found = finding(audit_of(**content), "OA506")
    assert (found["confidence"], found["cost_ns"]) == ("inferred", 60 * US)


def test_one_hole_or_two_prove_nothing() -> None:
    assert of_comm(silent(2)) == []
    assert of_comm(silent(3))[0][2] == 3


def test_four_of_five_holes_at_a_place_must_end_so() -> None:
    assert of_comm(silent(5, missed=[2]))[0][2] == 4
    assert of_comm(silent(4, missed=[2])) == []
    assert of_comm(silent(9, missed=[2, 5])) == []
    assert of_comm(silent(10, missed=[2, 5]))[0][2] == 8


def test_a_hole_ends_within_20_us_of_the_collective() -> None:
    assert of_comm(silent(wakes_ns=20_000))[0][2] == 4
    assert of_comm(silent(wakes_ns=20_001)) == []
    assert of_comm(silent(wakes_ns=0))[0][2] == 4
    assert of_comm(silent(wakes_ns=-1)) == []


def test_a_hole_that_is_none_waits_for_nothing() -> None:
    # From 160 to 210 µs it lasts 50 µs.
    assert of_comm(silent(begins_us=160))[0][2] == 4
    assert of_comm(silent(begins_us=160.001)) == []


def test_what_is_waited_for_was_launched_before_the_hole() -> None:
    # By another thread, while this one was in the hole.
    content = silent()
    for launched_us, count in ((3.999, 1), (4, 0), (5, 0)):
        content["kernels"] = [
            replace(
                one,
                launch=call(
                    "cudaLaunchKernel_v7000",
                    one.start_ns // (4 * MS) * 4_000 + launched_us,
                    one.start_ns // (4 * MS) * 4_000 + launched_us + 1,
                    thread=WORKER,
                ),
            )
            if one.name == NCCL
            else one
            for one in content["kernels"]
        ]
        assert len(of_comm(content)) == count


def test_short_collectives_are_not_waited_for() -> None:
    assert len(of_comm(silent(lasts_us=20))) == 1
    content = silent(lasts_us=20)
    content["kernels"] = [
        replace(one, start_ns=one.start_ns + 1) if one.name == NCCL else one
        for one in content["kernels"]
    ]
    assert of_comm(content) == []


def test_where_collectives_end_all_the_time_holes_end_so_by_chance() -> None:
    content = silent()
    # The device works for 15.89 ms; of that a fifth may lie within 20 µs of an end.
    for period_us, count in ((100, 0), (200, 1)):
        more = [
            kernel(at + 290, at + 300, at + 330, name=NCCL, stream=11, thread=WORKER)
            for at in range(0, 15_500, period_us)
        ]
        assert len(of_comm({**content, "kernels": [*content["kernels"], *more]})) == count


def test_without_collectives_holes_are_only_holes() -> None:
    content = silent()
    content["kernels"] = [replace(one, name="gemm") for one in content["kernels"]]
    assert of_comm(content) == []


def os_call(name: str, start_ns: int, end_ns: int, thread: int = DEFAULT_THREAD) -> dict[str, Any]:
    return {
        "start": start_ns, "end": end_ns, "eventClass": 27, "globalTid": thread, "nameId": name,
        "returnValue": 0, "nestingLevel": 0, "callchainId": 0,
    }  # fmt: skip


@pytest.mark.xfail(strict=True, reason="whether the thread ran is not asked")
def test_a_thread_that_sleeps_in_the_operating_system_reads_no_memory() -> None:
    asleep = [os_call("recvmsg", n * 4 * MS + 5 * US, n * 4 * MS + 209 * US) for n in range(4)]
    assert of_comm(silent(), raw_rows={"OSRT_API": asleep}) == []


# --- OA509: polling ---


def queries(
    count: int, start_us: float, end_us: float, name: str = "cudaEventQuery_v3020", **more: Any
) -> list[ApiCall]:
    """Give queries of 1 µs, evenly from start to end."""
    last = ns(end_us) - US
    return [
        ApiCall(name, at, at + US, **more)
        for at in np.linspace(ns(start_us), last, count).astype(int).tolist()
    ]


@pytest.mark.parametrize("name", ["cudaEventQuery_v3020", "cudaStreamQuery_v3020", "cuEventQuery"])
def test_a_loop_of_queries_until_the_work_has_ended(name: str) -> None:
    document = audit_of(kernels=TWO, api_calls=queries(20, 100, 210, name))
    found = finding(document, "OA509")
    assert found["cost_ns"] == 300 * US
    assert found["evidence"]["calls"] == 20
    assert found["evidence"]["host_wait_ns"] == 110 * US
    assert found["confidence"] == "inferred"


def test_fewer_than_ten_queries_are_no_loop() -> None:
    assert sites(kernels=TWO, api_calls=queries(9, 100, 210)) == []
    assert [one[2] for one in sites(kernels=TWO, api_calls=queries(10, 100, 210))] == [10]


def test_a_loop_of_less_than_20_us_is_none() -> None:
    assert sites(kernels=TWO, api_calls=queries(15, 190, 209.999)) == []
    assert len(sites(kernels=TWO, api_calls=queries(15, 190, 210))) == 1


def test_any_other_call_ends_a_loop() -> None:
    asked = queries(18, 100, 210)
    between = ApiCall("cudaGetDevice_v3020", asked[8].end_ns, asked[8].end_ns + 10)
    assert sites(kernels=TWO, api_calls=[*asked, between]) == []
    # One of another thread does not.
    theirs = replace(between, thread=WORKER)
    assert len(sites(kernels=TWO, api_calls=[*asked, theirs])) == 1
    # Ten on both sides are two loops at one place; the first ran beside work.
    asked = queries(20, 100, 210)
    between = ApiCall("cudaGetDevice_v3020", asked[9].end_ns, asked[9].end_ns + 10)
    (found,) = sites(kernels=TWO, api_calls=[*asked, between])
    assert (found[2], found[4]) == (20, 300 * US)
    assert found[3] == asked[9].end_ns - asked[0].start_ns + asked[19].end_ns - asked[10].start_ns


def test_polling_costs_only_what_the_thread_itself_then_launches() -> None:
    beside = queries(20, 100, 210, thread=WORKER)
    assert sites(kernels=TWO, api_calls=beside) == [("OA509", "cudaEventQuery", 20, 110 * US, 0)]
    theirs = [FIRST, kernel(495, 500, 600, thread=WORKER)]
    assert sites(kernels=theirs, api_calls=beside)[0][4] == 300 * US
    assert sites(kernels=theirs, api_calls=queries(20, 100, 210))[0][4] == 0


def test_polling_beside_work_costs_nothing() -> None:
    assert sites(kernels=TWO, api_calls=queries(20, 20, 190))[0][4] == 0
    ahead = [FIRST, kernel(150, 500, 600)]
    # Work that was launched before the device fell idle: it only had not started.
    assert sites(kernels=ahead, api_calls=queries(20, 160, 210))[0][4] == 0


def test_polling_on_an_idle_device_costs_while_it_lasts() -> None:
    assert sites(kernels=TWO, api_calls=queries(20, 300, 400))[0][4] == 100 * US
    assert sites(kernels=TWO, api_calls=queries(20, 300, 480))[0][4] == 200 * US


# --- whose the idle time is ---


def test_the_call_that_began_to_last_owns_the_idle_time() -> None:
    # A wait, and a capture behind it until the device works again.
    content: dict[str, Any] = {
        "kernels": TWO,
        "syncs": [Sync(20 * US, 206 * US, "stream_sync")],
        "api_calls": capture(230, 480),
    }
    assert sorted(sites(**content)) == [
        ("OA502", "cudaStreamSynchronize", 1, 186 * US, 30 * US),
        ("OA507", "cudaStreamBeginCapture", 1, 250 * US, 270 * US),
    ]


def test_an_allocation_inside_a_capture_owns_its_part() -> None:
    calls = [*capture(220, 490), call("cudaMalloc_v3020", 300, 400)]
    assert sorted(sites(kernels=TWO, api_calls=calls))[0] == (
        "OA505", "cudaMalloc", 1, 100 * US, 100 * US,
    )  # fmt: skip


@pytest.mark.xfail(strict=True, reason="what a call leaves over belongs to nobody")
def test_what_a_call_leaves_over_belongs_to_the_one_before() -> None:
    content: dict[str, Any] = {
        "kernels": TWO,
        "syncs": [Sync(20 * US, 206 * US, "stream_sync")],
        "api_calls": [call("cudaHostAlloc_v3020", 230, 300)],
    }
    # The sync reaches from 200 µs to 500 µs, the allocation has 70 µs of that.
    assert sorted(sites(**content)) == [
        ("OA502", "cudaStreamSynchronize", 1, 186 * US, 230 * US),
        ("OA505", "cudaHostAlloc", 1, 70 * US, 70 * US),
    ]
    assert "OA511" not in codes(audit_of(**content))


def test_two_calls_that_wait_for_the_same_share_nothing() -> None:
    content: dict[str, Any] = {
        "kernels": TWO,
        "syncs": [
            Sync(20 * US, 206 * US, "stream_sync"),
            Sync(19 * US, 207 * US, "device_sync", thread=WORKER),
        ],
    }
    found = {one[1]: one[4] for one in sites(**content)}
    assert found == {"cudaDeviceSynchronize": 300 * US, "cudaStreamSynchronize": 0}


def test_idle_time_belongs_to_nobody_where_work_was_queued() -> None:
    late_start = [FIRST, kernel(199.999, 500, 600, thread=WORKER)]
    sync = Sync(20 * US, 206 * US, "stream_sync")
    calls = [call("cudaFree_v3020", 150, 480, thread=global_tid(1000, 8))]
    found = sites(kernels=late_start, syncs=[sync], api_calls=calls)
    assert [one[4] for one in found] == [0, 0]
    late_start[1] = kernel(200, 500, 600, thread=WORKER)
    found = sites(kernels=late_start, syncs=[sync], api_calls=calls)
    assert sum(one[4] or 0 for one in found) == 300 * US


LENGTH = 40
DEVICES = ((DEFAULT_PROCESS, 0), (DEFAULT_PROCESS, 1), (OTHER, 0))


@dataclass(frozen=True)
class Claim:
    """A call that claims the idle time of a device from a moment on."""

    device: int  # number in DEVICES
    start: int
    begin: int | None
    limit: int | None


@dataclass(frozen=True)
class Gap:
    """Idle time, and when the work was launched that ended it (None: not known)."""

    device: int
    start: int
    end: int
    launched: int | None


@st.composite
def gaps(draw: st.DrawFn) -> list[Gap]:
    found = []
    for device in range(len(DEVICES)):
        edges = sorted(draw(st.lists(st.integers(0, LENGTH), max_size=8, unique=True)))
        for start, end in zip(edges[::2], edges[1::2], strict=False):
            launched = draw(st.one_of(st.none(), st.integers(0, end)))
            found.append(Gap(device, start, end, launched))
    return found


claims = st.lists(
    st.builds(
        Claim,
        device=st.integers(0, len(DEVICES) - 1),
        start=st.integers(0, LENGTH),
        begin=st.one_of(st.none(), st.integers(0, LENGTH)),
        limit=st.one_of(st.none(), st.integers(0, LENGTH)),
    ),
    max_size=10,
)


def owned(several: Sequence[Claim], idle: Sequence[Gap]) -> list[tuple[int, int] | None]:
    """Ask who owns what: the idle time of each claim."""

    @dataclass(frozen=True)
    class Drawing:
        operations: pl.DataFrame
        api_calls: pl.DataFrame

    numbers = ("process", "device", "start_ns", "api_row")
    launched = [gap.launched for gap in idle if gap.launched is not None]
    ended_by = [gap for gap in idle if gap.launched is not None]
    drawing = Drawing(
        pl.DataFrame(
            [(*DEVICES[gap.device], gap.end, row) for row, gap in enumerate(ended_by)]
            # Work of which no launch is known tells nothing.
            + [(*DEVICES[gap.device], gap.end, None) for gap in idle],
            schema=dict.fromkeys(numbers, pl.Int64),
            orient="row",
        ),
        pl.DataFrame({"start_ns": launched}, schema={"start_ns": pl.Int64}),
    )
    rows = pl.DataFrame(
        [
            (*DEVICES[one.device], one.start, number, one.begin, one.limit)
            for number, one in enumerate(several)
        ],
        schema=dict.fromkeys(
            ("process", "device", "start_ns", "call", "from_ns", "to_ns"), pl.Int64
        ),
        orient="row",
    )
    of_device = {
        key: intervals.union(
            np.array([gap.start for gap in idle if gap.device == number], dtype=np.int64),
            np.array([gap.end for gap in idle if gap.device == number], dtype=np.int64),
        )
        for number, key in enumerate(DEVICES)
    }
    found = own_idle_time(rows, of_device, cast(oa.Trace, drawing))
    assert found["call"].to_list() == list(range(len(several)))
    return [
        None if start is None or end <= start else (start, end)
        for start, end in found.select("idle_start_ns", "idle_end_ns").rows()
    ]


def owner_of(ns: int, gap: Gap, several: Sequence[Claim]) -> int | None:
    """Say whose one ns of a gap is, by the rule itself."""
    if gap.launched is not None and gap.launched < gap.start:
        return None
    reaching = [
        (-one.begin, one.start, number)
        for number, one in enumerate(several)
        if one.device == gap.device and one.begin is not None and gap.start <= one.begin <= ns
    ]
    return min(reaching)[2] if reaching else None


@settings(max_examples=150)
@given(claims, gaps())
@example([Claim(0, 0, 5, None), Claim(0, 1, 5, None), Claim(0, 0, 7, None)], [Gap(0, 4, 9, 4)])
def test_owners_against_brute_force(several: list[Claim], idle: list[Gap]) -> None:
    several = [replace(one, limit=None) for one in several]
    found = owned(several, idle)
    for number, one in enumerate(several):
        mine = {
            ns
            for gap in idle
            if gap.device == one.device
            for ns in range(gap.start, gap.end)
            if owner_of(ns, gap, several) == number
        }
        assert mine == (set() if found[number] is None else set(range(*found[number])))


@settings(max_examples=150)
@given(claims, gaps())
def test_no_idle_time_has_two_owners(several: list[Claim], idle: list[Gap]) -> None:
    found = owned(several, idle)
    taken: set[tuple[int, int]] = set()
    for one, mine in zip(several, found, strict=True):
        if mine is None:
            continue
        start, end = mine
        assert one.begin == start
        assert one.limit is None or end <= one.limit
        assert any(
            gap.device == one.device and gap.start <= start and end <= gap.end for gap in idle
        )
        spent = {(one.device, ns) for ns in range(start, end)}
        assert not spent & taken
        taken |= spent


@settings(max_examples=50)
@given(claims, gaps(), st.integers(0, 10**15))
def test_owners_move_with_the_clock(several: list[Claim], idle: list[Gap], by: int) -> None:
    later = [
        Claim(
            one.device,
            one.start + by,
            None if one.begin is None else one.begin + by,
            None if one.limit is None else one.limit + by,
        )
        for one in several
    ]
    gaps_later = [
        Gap(
            gap.device,
            gap.start + by,
            gap.end + by,
            None if gap.launched is None else gap.launched + by,
        )
        for gap in idle
    ]
    expected = [None if one is None else (one[0] + by, one[1] + by) for one in owned(several, idle)]
    assert owned(later, gaps_later) == expected


# --- whole traces of threads that launch, wait, allocate, poll and do nothing ---

actions = st.lists(
    st.tuples(
        st.sampled_from(["launch", "launch", "sync", "free", "poll", "think", "device_sync"]),
        st.integers(5, 300),
        st.sampled_from([7, 9]),
    ),
    min_size=2,
    max_size=14,
)


def simulated(main: Sequence[tuple[str, int, int]], side: Sequence[tuple[str, int, int]]) -> Any:
    """Let two threads do this on one device; times are in ns, those of the threads never equal."""
    clocks = {DEFAULT_THREAD: 0, WORKER: 1}
    plans = {DEFAULT_THREAD: list(main), WORKER: list(side)}
    free = {7: 0, 9: 0}
    content: dict[str, list[Any]] = {"kernels": [], "syncs": [], "api_calls": []}
    while any(plans.values()):
        thread = min((one for one in plans if plans[one]), key=lambda one: clocks[one])
        what, us, stream = plans[thread].pop(0)
        at = clocks[thread] + 2 * US
        end = at + 4 * US
        if what == "launch":
            start = max(end + 2 * US, free[stream])
            free[stream] = start + us * US
            launching = ApiCall("cudaLaunchKernel_v7000", at, end, thread)
            content["kernels"].append(Kernel(start, free[stream], stream=stream, launch=launching))
        elif what in ("sync", "device_sync"):
            until = free[stream] if what == "sync" else max(free.values())
            end = max(end, until + 6 * US + at % 2)
            kind: Any = "stream_sync" if what == "sync" else "device_sync"
            content["syncs"].append(Sync(at, end, kind, stream=stream, thread=thread))
        elif what == "free":
            end = at + us * US
            content["api_calls"].append(ApiCall("cudaFree_v3020", at, end, thread))
        elif what == "poll":
            end = max(at + 12 * US, free[stream] + 2 * US + at % 2)
            count = min(10 + us // 10, (end - at) // 600)
            content["api_calls"] += [
                ApiCall("cudaEventQuery_v3020", one, one + 300, thread)
                for one in np.linspace(at, end - 300, count).astype(int).tolist()
            ]
        else:
            end = at + us * US
        clocks[thread] = end
    return content


def prices(**content: Any) -> tuple[dict[tuple[Any, ...], int | None], int, int]:
    """Give the idle time of each site, all of the device, and what owners have together."""
    document = audit_of(policy=oa.Policy(allow_waits=()), **content)
    (device,) = document["devices"]
    of_sites = {
        (one["code"], one["api"], one["thread"], one["count"], one["host_wait_ns"]):
        one["gpu_idle_ns"]
        for one in document["hidden_syncs"]
        if one["code"] != "OA504"
    }  # fmt: skip
    holes = {
        (one["code"], one["where"]["thread"], one["evidence"]["holes"]): one["cost_ns"]
        for one in document["findings"]
        if one["code"] == "OA511"
    }
    together = sum(one or 0 for one in of_sites.values()) + sum(holes.values())
    return {**of_sites, **holes}, device["idle_ns"], together


SHUFFLED = "".join(
    f"CREATE TABLE shuffled AS SELECT * FROM {table} ORDER BY (start * 7919) % 104729;"
    f"DROP TABLE {table}; ALTER TABLE shuffled RENAME TO {table};"
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL")
)


@settings(max_examples=15)
@given(actions, actions)
@example(
    [("launch", 200, 7), ("sync", 9, 7), ("free", 100, 7), ("think", 80, 7), ("launch", 50, 7)],
    [("poll", 200, 7), ("launch", 30, 9), ("device_sync", 9, 7), ("launch", 30, 9)],
)
def test_owners_never_have_more_than_the_idle_time(
    main: list[tuple[str, int, int]], side: list[tuple[str, int, int]]
) -> None:
    content = simulated([("launch", 50, 7), *main], [*side, ("launch", 20, 9)])
    expected = prices(**content)
    of_sites, idle_ns, together = expected
    assert together <= idle_ns
    assert all(one is None or one >= 0 for one in of_sites.values())
    # The order of rows, and what streams are called, changes nothing; nor does a later clock.
    assert prices(**content, extra_sql=SHUFFLED) == expected
    renamed = {
        name: [replace(one, stream=one.stream + 30) if name != "api_calls" else one for one in rows]
        for name, rows in content.items()
    }
    assert prices(**renamed) == expected
    later = {name: [moved(one, 7_000_000_001) for one in rows] for name, rows in content.items()}
    assert prices(**later) == expected


def moved(one: Any, by: int) -> Any:
    found = replace(one, start_ns=one.start_ns + by, end_ns=one.end_ns + by)
    if isinstance(one, Kernel):
        found = replace(found, launch=moved(one.launch, by))
    return found
