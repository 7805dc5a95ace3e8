"""Holes of the host (OA511), and launches into a full queue (OA508)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import audit_of, codes, finding
from tests.tracebuilder import (
    DEFAULT_THREAD,
    ApiCall,
    Copy,
    Kernel,
    Overhead,
    Range,
    global_tid,
    nvtx_domain,
)

US = 1_000
WORKER = global_tid(1000, 7)
OURS = nvtx_domain("overlapaudit", 1)


def ns(us: float) -> int:
    return round(us * US)


def kernel(launched_us: float, start_us: float, end_us: float, **more: Any) -> Kernel:
    """Give a kernel whose launch takes 2 µs."""
    at, thread = ns(launched_us), more.pop("thread", None)
    call = ApiCall("cudaLaunchKernel_v7000", at, at + 2 * US, thread=thread)
    return Kernel(ns(start_us), ns(end_us), "gemm", launch=call, **more)


# The device works until 200 µs, and again from 500 µs on.
FIRST = kernel(0, 10, 200)
AGAIN = kernel(495, 500, 600)


def ours(text: str, start_us: float, end_us: float) -> Range:
    return Range(text, ns(start_us), ns(end_us), domain=1)


def test_the_device_is_idle_while_the_host_is_elsewhere() -> None:
    document = audit_of(kernels=[FIRST, AGAIN])
    found = finding(document, "OA511")
    # From 2 µs to 495 µs the thread made no call; the device was idle from 200 µs on.
    assert found["cost_ns"] == 295 * US
    assert found["evidence"] == {
        "holes": 1,
        "gpu_idle_ns": 295 * US,
        "host_time_in_them_ns": 493 * US,
        "longest_ns": 493 * US,
        "most_in": [],
        "operating_system_calls": None,
        "cause": found["evidence"]["cause"],
    }
    assert found["evidence"]["cause"].startswith("not known")
    assert found["where"]["thread"] == DEFAULT_THREAD
    assert (found["where"]["start_ns"], found["where"]["end_ns"]) == (2 * US, 495 * US)


@pytest.mark.parametrize(
    ("calls", "idle_us"),
    [
        ([ApiCall("cudaGetDevice_v3020", 250 * US, 251 * US)], 294),  # 200 to 250, 251 to 495
        ([ApiCall("cudaGetDevice_v3020", 200 * US, 446 * US)], None),  # 49 µs are no hole
        ([ApiCall("cudaGetDevice_v3020", 200 * US, 445 * US)], 50),
        ([ApiCall("cudaGetDevice_v3020", 300 * US, 301 * US, thread=WORKER)], 295),
    ],
)
def test_a_hole_is_50_us_without_a_call_of_the_thread(
    calls: list[ApiCall], idle_us: int | None
) -> None:
    document = audit_of(kernels=[FIRST, AGAIN], api_calls=calls)
    found = [one["cost_ns"] for one in document["findings"] if one["code"] == "OA511"]
    assert found == ([] if idle_us is None else [idle_us * US])


def test_work_that_was_launched_before_is_not_late() -> None:
    assert "OA511" not in codes(audit_of(kernels=[FIRST, kernel(150, 500, 600)]))


def test_holes_of_a_thread_that_launched_nothing_are_no_reason() -> None:
    # The worker made no call from 2 µs on; the thread that launched was in calls throughout.
    kernels = [kernel(0, 10, 200, thread=WORKER), AGAIN]
    calls = [ApiCall("cudaGetDevice_v3020", 3 * US, 494 * US)]
    assert "OA511" not in codes(audit_of(kernels=kernels, api_calls=calls))


def test_e5_the_range_in_which_the_host_was_is_named() -> None:
    """vllm#6854, TRT-LLM#13957: milliseconds of host work are exposed in each decode step."""
    kernels, ranges = [], [OURS]
    for step in range(4):
        at = 1_000 * step
        kernels.append(kernel(at + 600, at + 605, at + 1_100))
        ranges += [
            ours(f"iteration.step|number={step}", at, at + 990),
            ours("iteration.schedule", at + 50, at + 590),
        ]
    document = audit_of(kernels=kernels, ranges=ranges)
    (found,) = [one for one in document["findings"] if one["code"] == "OA511"]
    assert found["where"]["range"] == "iteration.schedule"
    # Idle from 1,100 to 1,605 µs, of which until the launch at 1,600 µs: three times.
    assert found["cost_ns"] == 3 * 500 * US
    assert found["evidence"]["most_in"] == ["iteration.schedule (1.500 ms)"]
    assert found["evidence"]["holes"] == 3


def os_call(name: str, start_us: float, end_us: float, thread: int = DEFAULT_THREAD) -> Any:
    return {
        "start": ns(start_us), "end": ns(end_us), "eventClass": 27, "globalTid": thread,
        "nameId": name, "returnValue": 0, "nestingLevel": 0, "callchainId": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "named"),
    [
        ([os_call("recvmsg", 10, 480)], ["recvmsg"]),
        ([os_call("recvmsg", 10, 100), os_call("read", 100, 400)], ["read", "recvmsg"]),
        ([os_call("recvmsg", 10, 200)], []),  # less than half of the hole
        ([os_call("recvmsg", 10, 480, WORKER)], []),
    ],
)
def test_what_the_thread_did_in_the_operating_system(calls: list[Any], named: list[str]) -> None:
    document = audit_of(kernels=[FIRST, AGAIN], raw_rows={"OSRT_API": calls})
    assert finding(document, "OA511")["evidence"]["operating_system_calls"] == named


# --- OA508: the queue is full ---


def deep(pending: int, lasts_us: float = 30, **more: Any) -> dict[str, Any]:
    """Give so many kernels that are pending when a launch takes long."""
    kernels = [
        Kernel(
            ns(100 + 10 * n),
            ns(110 + 10 * n),
            "gemm",
            launch=ApiCall("cudaLaunchKernel_v7000", 20 * n, 20 * n + 10),
        )
        for n in range(pending)
    ]
    end = 100 + 10 * pending
    call = ApiCall("cudaLaunchKernel_v7000", 50 * US, ns(50 + lasts_us))
    kernels.append(Kernel(ns(end), ns(end + 10), "gemm", launch=call, **more))
    return {"kernels": kernels}


@pytest.mark.parametrize(
    ("pending", "lasts_us", "found"),
    [(512, 20, True), (511, 20, False), (512, 19.999, False)],
)
def test_a_launch_is_slow_and_much_is_pending(pending: int, lasts_us: float, found: bool) -> None:
    assert ("OA508" in codes(audit_of(**deep(pending, lasts_us)))) is found


def test_a_full_queue_costs_nothing() -> None:
    found = finding(audit_of(**deep(600)), "OA508")
    assert (found["severity"], found["confidence"], found["cost_ns"]) == ("info", "inferred", 0)
    assert found["evidence"] == {
        "launches": 1,
        "host_time_in_them_ns": 30 * US,
        "longest_ns": 30 * US,
        "operations_pending": 600,
        "recorded_by_the_profiler": False,
    }


def test_the_profiler_saw_that_the_queue_was_full() -> None:
    seen = Overhead(55 * US, 75 * US, 8, "Command Buffer Full", correlation=900)
    document = audit_of(**deep(3, correlation=900), overheads=[seen])
    found = finding(document, "OA508")
    assert (found["confidence"], found["evidence"]["operations_pending"]) == ("proven", 3)
    assert found["evidence"]["recorded_by_the_profiler"] is True


def test_e11_a_copy_that_queues_takes_long_to_launch() -> None:
    """vllm#29013: with about 1,000 copies pending, cudaMemcpyAsync takes 180 µs instead of 2."""

    def call(start_ns: int, end_ns: int) -> ApiCall:
        return ApiCall("cudaMemcpyAsync_v3020", start_ns, end_ns)

    copies = [
        Copy(ns(100 + 10 * n), ns(110 + 10 * n), launch=call(20 * n, 20 * n + 10))
        for n in range(1_000)
    ]
    end = ns(100 + 10 * 1_000)
    copies.append(Copy(end, end + 10 * US, launch=call(50 * US, 230 * US)))
    found = finding(audit_of(copies=copies), "OA508")
    assert found["evidence"]["longest_ns"] == 180 * US
    assert found["evidence"]["operations_pending"] == 1_000


def test_a_pageable_copy_takes_long_for_reasons_of_its_own() -> None:
    content = deep(600)
    long = content["kernels"].pop()
    call = ApiCall("cudaMemcpyAsync_v3020", 50 * US, 80 * US)
    copies = [Copy(long.start_ns, long.end_ns, src_kind="pageable", launch=call)]
    assert "OA508" not in codes(audit_of(**content, copies=copies))
