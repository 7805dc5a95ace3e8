"""What users of profilers ran into, answered: overlap that does not happen, and why (E).

The names carry the numbers of the cases; each docstring says where the symptom was reported.
"""

from __future__ import annotations

from typing import Any

import pytest

from overlapaudit.rules.catalogue import page
from tests.support import audit_of, codes, finding, lanes, only_device, overlaps, pair
from tests.tracebuilder import (
    ApiCall,
    Copy,
    EventRecord,
    Kernel,
    MemoryEvent,
    Range,
    Sync,
    global_tid,
)

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
WORKER = global_tid(1000, 7)


def launch(start_ns: int, thread: int | None = None) -> ApiCall:
    return ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + 1_000, thread)


def copying(start_ns: int, end_ns: int) -> ApiCall:
    return ApiCall("cudaMemcpyAsync_v3020", start_ns, end_ns)


def reported(document: dict[str, Any], code: str) -> list[tuple[str, int, int | None]]:
    """Give (severity, calls, idle) of the findings with a code."""
    return [
        (one["severity"], one["evidence"]["calls"], one["evidence"]["gpu_idle_ns"])
        for one in document["findings"]
        if one["code"] == code
    ]


def test_e1_pinned_copies_on_the_stream_of_the_kernels() -> None:
    """nsys-ai#493: "pageable" said of 4 copies of 784 bytes, while 25 GB shared the stream."""
    pinned = [Copy(1_000_000 * n, 1_000_000 * n + 900_000, "h2d", 57_000_000) for n in range(1, 51)]
    kernels = [Kernel(1_000_000 * n + 910_000, 1_000_000 * n + 990_000, GEMM) for n in range(1, 51)]
    small = [
        Copy(at, at + 1_000, "h2d", 784, src_kind="pageable", launch=copying(at - 500, at + 2_000))
        for at in (1_905_000, 2_905_000, 3_905_000, 4_905_000)
    ]
    document = audit_of(kernels=kernels, copies=[*pinned, *small])
    evidence = finding(document, "OA201")["evidence"]
    assert (evidence["lane"], evidence["streams"], evidence["overlap_ns"]) == ("copy", [7], 0)
    assert evidence["on_kernel_streams_ns"] == evidence["lane_ns"] == 50 * 900_000 + 4 * 1_000
    assert "OA503" not in codes(document)
    assert document["hidden_syncs"] == []


@pytest.mark.parametrize(
    ("source", "expected"), [("pageable", [("error", 1, 100_000)]), ("pinned", [])]
)
def test_e2_an_asynchronous_copy_of_pageable_memory_blocks(
    source: Any, expected: list[tuple[str, int, int | None]]
) -> None:
    """hip#2291, onnxruntime#3723: the call takes as long as the copy."""
    document = audit_of(
        kernels=[
            Kernel(10_000, 90_000, GEMM, launch=launch(0)),
            Kernel(400_000, 500_000, GEMM, launch=launch(390_000)),
        ],
        copies=[
            Copy(
                100_000,
                300_000,
                "h2d",
                src_kind=source,
                stream=9,
                launch=copying(95_000, 301_000),
            )
        ],
    )
    assert reported(document, "OA503") == expected


def test_e2_small_pageable_copies_that_hold_nobody_up_are_not_reported() -> None:
    document = audit_of(
        kernels=[Kernel(10_000, 900_000, GEMM)],
        copies=[
            Copy(at, at + 2_000, "h2d", 8, src_kind="pageable", stream=9)
            for at in range(20_000, 800_000, 10_000)
        ],
    )
    assert "OA503" not in codes(document)
    assert document["hidden_syncs"] == []


@pytest.mark.parametrize(
    ("next_launch_ns", "expected"), [(2_000, ("info", 1, 0)), (910_000, ("error", 1, 119_000))]
)
def test_e3_a_wait_under_a_busy_device_is_hidden(
    next_launch_ns: int, expected: tuple[str, int, int]
) -> None:
    """vllm#3384: `.cpu()` took 90 % of the CPU's time, and waited for earlier work."""
    start_ns = 901_000 if next_launch_ns < 900_000 else 1_020_000
    document = audit_of(
        kernels=[
            Kernel(10_000, 900_000, GEMM, launch=launch(0)),
            Kernel(start_ns, 1_100_000, GEMM, stream=9, launch=launch(next_launch_ns)),
        ],
        copies=[Copy(900_000, 901_000, "d2h", 8, launch=copying(4_000, 6_000))],
        syncs=[Sync(7_000, 905_000, "stream_sync")],
    )
    assert reported(document, "OA501") == [expected]
    assert document["hidden_syncs"][0]["host_wait_ns"] == 898_000


def test_e4_a_read_back_is_named_with_the_place_that_makes_it() -> None:
    """vllm#22760: the stream sync of `tolist` held up the copies of other streams."""
    document = audit_of(
        kernels=[Kernel(10_000, 200_000, GEMM, launch=launch(0))],
        copies=[
            Copy(200_000, 201_000, "d2h", 8, launch=copying(2_000, 3_000)),
            Copy(300_000, 380_000, "h2d", stream=9, launch=copying(280_000, 281_000)),
        ],
        syncs=[Sync(4_000, 205_000, "stream_sync")],
        ranges=[Range("tolist", 1_000, 206_000)],
    )
    found = finding(document, "OA501")
    assert found["evidence"]["api"] == "cudaStreamSynchronize"
    assert found["where"]["range"] == "tolist"
    assert (found["cost_ns"], found["evidence"]["host_wait_ns"]) == (99_000, 201_000)
    assert "event" in found["next_step"]


@pytest.mark.parametrize("name", ["cudaFree_v3020", "cudaFreeHost_v3020", "cudaMalloc_v3020"])
def test_e12_calls_of_the_allocator_that_wait_for_the_device(name: str) -> None:
    """Fuser#5767, cutorch#618: memory given back in the steady state."""
    steps = range(0, 3_000_000, 1_000_000)
    document = audit_of(
        kernels=[Kernel(at + 10_000, at + 800_000, GEMM, launch=launch(at)) for at in steps],
        api_calls=[ApiCall(name, at + 5_000, at + 801_000) for at in steps],
    )
    # After the last nothing runs any more, so nothing is lost by it.
    assert reported(document, "OA505") == [("error", 3, 2 * 210_000)]
    idle = [ApiCall(name, at + 900_000, at + 950_000) for at in steps]
    # One that waits for nothing costs the time it takes itself, while nothing is launched.
    found = audit_of(
        kernels=[Kernel(at + 10_000, at + 800_000, GEMM) for at in steps], api_calls=idle
    )
    assert reported(found, "OA505") == [("warning", 2, 2 * 50_000)]


def test_e18_an_event_waits_for_the_last_work_of_its_own_stream() -> None:
    """HTA#117, kineto#904: the source of a wait taken from the thread that waits."""
    document = audit_of(
        kernels=[
            Kernel(10_000, 100_000, GEMM, stream=9, launch=launch(0, WORKER)),
            Kernel(5_000, 60_000, GEMM, launch=launch(500)),
            Kernel(150_000, 400_000, GEMM, launch=launch(140_000)),
        ],
        event_records=[EventRecord(2_000, 2_100, event_id=3, stream=9, thread=WORKER)],
        syncs=[Sync(6_000, 103_000, "event_sync", event_id=3)],
    )
    assert document["coverage"]["waits"] == {"exact": 1, "inferred": 0, "unresolved": 0}
    assert reported(document, "OA502") == [("error", 1, 50_000)]


def test_e18_a_wait_on_a_stream_without_work_has_no_price() -> None:
    """kineto#795: waits on unused streams."""
    document = audit_of(
        kernels=[
            Kernel(10_000, 100_000, GEMM, launch=launch(0)),
            Kernel(150_000, 400_000, GEMM, launch=launch(140_000)),
        ],
        event_records=[EventRecord(2_000, 2_100, event_id=3, stream=20)],
        syncs=[Sync(6_000, 103_000, "event_sync", event_id=3)],
    )
    assert reported(document, "OA502") == [("info", 1, None)]
    assert finding(document, "OA502")["cost_ns"] is None


def test_e19_settings_that_perturb_are_listed() -> None:
    """pytorch#143890: tracing events breaks the overlap that it is meant to show."""
    document = audit_of(
        kernels=[Kernel(10_000, 20_000, GEMM)],
        event_records=[EventRecord(0, 10, event_id=3, timestamp_ns=21_000)],
        memory_events=[MemoryEvent(5)],
        raw_rows={"CUDA_CALLCHAINS": [{"id": 1}]},
    )
    found = finding(document, "OA006")
    assert found["severity"] == "warning"
    assert found["evidence"]["settings"] == [
        "cuda-event-trace",
        "cuda-memory-usage",
        "cudabacktrace",
    ]
    assert "OA006" not in codes(audit_of(kernels=[Kernel(10_000, 20_000, GEMM)]))


def test_e20_priority_is_no_advice_for_copies_or_collectives() -> None:
    """vllm#31341, pytorch#117973: a stream's priority moves neither DMA nor NCCL."""
    document = audit_of(
        kernels=[Kernel(100_000, 200_000, GEMM), Kernel(300_000, 400_000, NCCL)],
        copies=[Copy(200_000, 300_000, "h2d")],
    )
    advice = [one["next_step"] for one in document["findings"] if one["code"] == "OA201"]
    assert len(advice) == 2
    said = "\n".join([*advice, page("OA201"), page("OA503"), page("OA510")])
    assert "priorit" not in said.lower()


def test_e22_the_gain_is_bounded_by_the_shorter_side() -> None:
    """vllm#6317: 176.3 s of loading beside 0.9 s of compute can gain 0.9 s."""
    second = 10**9
    document = audit_of(
        kernels=[Kernel(second, second + 900_000_000, GEMM)],
        copies=[Copy(2 * second, 2 * second + 176_300_000_000, "h2d")],
    )
    found = finding(document, "OA201")
    assert found["cost_ns"] == 900_000_000
    assert found["evidence"]["cost_is"].startswith("an upper bound")


@pytest.mark.parametrize(
    ("copy_ns", "together"), [(200_000, 0), (150_000, 50_000), (100_000, 100_000)]
)
def test_e24_equal_totals_do_not_tell_overlap(copy_ns: int, together: int) -> None:
    """pegainfer#569, imp#1655: overlap claimed from sums."""
    device = only_device(
        audit_of(
            kernels=[Kernel(100_000, 200_000, GEMM)],
            copies=[Copy(copy_ns, copy_ns + 100_000, "h2d", stream=9)],
        )
    )
    assert lanes(device) == {"compute": 100_000, "copy": 100_000}
    assert pair(device, "compute", "copy")["overlap_ns"] == together
    assert overlaps(device).get("compute&h2d", 0) == together
    assert device["busy_ns"] == 200_000 - together
