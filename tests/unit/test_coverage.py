"""Coverage: how far the parts of a trace fit together, and which waits could be resolved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import audit_of
from tests.tracebuilder import (
    ApiCall,
    EventRecord,
    GraphLaunch,
    Kernel,
    MemoryEvent,
    Metric,
    Range,
    Sync,
    global_pid,
    global_tid,
)


def coverage(**content: Any) -> dict[str, Any]:
    found: dict[str, Any] = audit_of(**content)["coverage"]
    return found


def waits(**content: Any) -> tuple[int, int, int]:
    counted = coverage(**content)["waits"]
    return counted["exact"], counted["inferred"], counted["unresolved"]


def lacking(**content: Any) -> dict[str, str]:
    return {
        gap["what"]: gap["capture_with"]
        for gap in coverage(**content)["not_recorded"]
        if gap["capture_with"]
    }


def test_operations_and_launches() -> None:
    found = coverage(
        kernels=[Kernel(10_000, 11_000), Kernel(20_000, 21_000, launch=None)],
        api_calls=[
            ApiCall("cudaLaunchKernel_v7000", 30_000, 31_000),
            ApiCall("cudaMemcpyAsync_v3020", 32_000, 33_000, return_value=1),  # failed
            ApiCall("cudaGetLastError_v3020", 34_000, 35_000),
            ApiCall("cudaLaunchHostFunc_v10000", 36_000, 37_000),  # the host's work
        ],
    )
    assert found["operations"] == 2
    assert found["operations_with_launch"] == 1
    assert found["launches"] == 2
    assert found["launches_with_operation"] == 1


def test_driver_launches_and_per_thread_streams_are_launches() -> None:
    names = ["cuLaunchKernelEx", "cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernelExC_v11060",
             "cuMemcpyHtoDAsync_v2", "cudaMemsetAsync_ptsz_v7000", "cuGraphLaunch"]  # fmt: skip
    calls = [ApiCall(name, 10 * n, 10 * n + 5) for n, name in enumerate(names)]
    assert coverage(kernels=[Kernel(9_000, 9_001)], api_calls=calls)["launches"] == 7


def test_launches_into_a_captured_stream_are_none() -> None:
    other = global_tid(1000, 5)
    found = coverage(
        kernels=[Kernel(10_000, 11_000)],
        api_calls=[
            ApiCall("cudaStreamBeginCapture_v10000", 100, 110),
            ApiCall("cudaLaunchKernel_v7000", 120, 130),
            ApiCall("cudaLaunchKernel_v7000", 120, 130, other),  # not captured
            ApiCall("cudaStreamEndCapture_v10000", 140, 150),
            ApiCall("cudaLaunchKernel_v7000", 160, 170),
        ],
    )
    assert found["launches"] == 3


def test_launches_are_unknown_without_api_calls() -> None:
    found = coverage(kernels=[Kernel(10_000, 11_000, launch=None)])
    assert found["operations"] == 1
    assert found["operations_with_launch"] is None
    assert found["launches"] is None
    assert found["waits"] is None


@pytest.mark.parametrize(("start_ns", "violations"), [(9_000, 0), (8_999, 1), (50, 1), (12_000, 0)])
def test_clock_violations(start_ns: int, violations: int) -> None:
    # Up to a microsecond is the clocks' own error.
    found = coverage(
        kernels=[Kernel(start_ns, 20_000, launch=ApiCall("cudaLaunchKernel_v7000", 10_000, 11_000))]
    )
    assert found["clock_violations"] == violations


def test_clock_violations_are_unknown_without_api_calls() -> None:
    assert coverage(kernels=[Kernel(10, 20, launch=None)])["clock_violations"] is None


def test_every_null_has_a_reason() -> None:
    for content in (
        {},
        {"kernels": [Kernel(10, 20, launch=None)]},
        {"api_calls": [ApiCall("cudaLaunchKernel_v7000", 0, 1)]},
        {"schema": "2023.4", "graph_launches": [GraphLaunch(10, 20)], "kernels": [Kernel(1, 2)]},
    ):
        found = coverage(**content)  # type: ignore[arg-type]
        named = {gap["what"] for gap in found["not_recorded"]}
        for field, value in found.items():
            assert value is not None or f"coverage.{field}" in named, (field, content)


def test_launches_are_known_without_gpu_work() -> None:
    assert coverage(api_calls=[ApiCall("cudaLaunchKernel_v7000", 0, 1)])["launches"] == 1


def test_an_empty_table_is_not_a_recording() -> None:
    whole = lacking(lazy=False, kernels=[Kernel(10_000, 11_000)])
    assert "device memory use" in whole
    assert "work inside CUDA graphs" not in whole


def test_work_that_ends_before_it_starts_is_a_clock_violation() -> None:
    found = coverage(
        kernels=[Kernel(10_000, 11_000)],
        extra_sql="UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9000",
    )
    assert found["clock_violations"] == 1


def test_waits_by_record_id() -> None:
    assert waits(
        event_records=[EventRecord(0, 1, event_id=3, event_sync_id=40)],
        syncs=[Sync(10, 11, "stream_wait", event_id=3, event_sync_id=40)],
    ) == (1, 0, 0)


@pytest.mark.parametrize(("recorded", "event"), [(20, 3), (0, 4)])
def test_an_id_that_names_another_record_is_no_proof(recorded: int, event: int) -> None:
    assert waits(
        event_records=[EventRecord(recorded, recorded + 1, event_id=event, event_sync_id=40)],
        syncs=[Sync(10, 11, "stream_wait", event_id=3, event_sync_id=40)],
    ) == (0, 0, 1)


def test_waits_by_the_order_of_records() -> None:
    records = [EventRecord(0, 1, event_id=3), EventRecord(20, 21, event_id=3)]
    assert waits(
        schema="2023.4",
        event_records=records,
        syncs=[Sync(10, 11, "stream_wait", event_id=3), Sync(30, 31, "event_sync", event_id=3)],
    ) == (2, 0, 0)


def test_a_record_that_races_with_the_wait_is_inferred() -> None:
    other = global_tid(1000, 5)
    assert waits(
        schema="2023.4",
        event_records=[EventRecord(0, 15, event_id=3, thread=other)],
        syncs=[Sync(10, 11, "stream_wait", event_id=3)],
    ) == (0, 1, 0)


def test_events_are_of_their_process() -> None:
    assert waits(
        schema="2023.4",
        event_records=[EventRecord(0, 1, event_id=3, process=global_pid(77))],
        syncs=[Sync(10, 11, "stream_wait", event_id=3)],
    ) == (0, 0, 1)


def test_waits_by_counting_records() -> None:
    # No rows of event records: ids count the calls, here from 101 on.
    calls = [ApiCall("cudaEventRecord_v3020", 10 * n, 10 * n + 1) for n in range(20)]
    syncs = [
        Sync(10 * n + 5, 10 * n + 6, "stream_wait", event_id=3, event_sync_id=101 + n)
        for n in range(20)
    ]
    assert waits(api_calls=calls, syncs=syncs) == (0, 20, 0)


def test_waits_by_the_thread_are_a_guess() -> None:
    calls = [
        ApiCall("cudaEventRecord_v3020", 0, 1),
        ApiCall("cudaStreamWaitEvent_v3020", 10, 11),
        ApiCall("cudaStreamWaitEvent_v3020", 10, 11, global_tid(1000, 5)),
    ]
    assert waits(api_calls=calls) == (0, 1, 1)


def test_a_record_after_the_wait_is_none() -> None:
    assert waits(
        event_records=[EventRecord(20, 21, event_id=3)],
        syncs=[Sync(10, 11, "stream_wait", event_id=3)],
    ) == (0, 0, 1)


def test_queries_wait_for_nothing() -> None:
    assert waits(
        event_records=[EventRecord(0, 1, event_id=3)],
        syncs=[Sync(10, 11, "event_query", event_id=3), Sync(20, 21, "stream_sync")],
    ) == (0, 0, 0)


def test_what_is_missing_is_named_with_the_option_that_records_it() -> None:
    assert lacking(kernels=[Kernel(10_000, 11_000)]) == {
        "NVTX ranges": "markers in the program",  # it was traced
        "GPU metrics (SM, memory and link use)": "--gpu-metrics-devices=all",
        "device memory use": "--cuda-memory-usage=true, in a run of its own: it slows the "
        "program down",
    }


def test_what_is_there_is_not_missing() -> None:
    assert not lacking(
        kernels=[Kernel(10_000, 11_000)],
        ranges=[Range("step", 0, 1)],
        metrics=[Metric(5, "SMs Active", 3)],
        memory_events=[MemoryEvent(5)],
    )


def test_old_versions_are_told_their_own_options() -> None:
    found = lacking(schema="2023.4", kernels=[Kernel(10_000, 11_000)])
    assert found["GPU metrics (SM, memory and link use)"] == "--gpu-metrics-device=all"


def test_graphs_as_a_whole_ask_for_nodes() -> None:
    found = lacking(graph_launches=[GraphLaunch(10_000, 20_000)])
    assert found["work inside CUDA graphs"] == "--cuda-graph-trace=node"


def test_what_this_version_leaves_null_is_named() -> None:
    document = audit_of(kernels=[Kernel(10_000, 11_000)])
    named = {gap["what"] for gap in document["coverage"]["not_recorded"]}
    null = {key for key, value in document.items() if value is None}
    assert null <= named
    assert document["coverage"]["gpu_ns_in_ranges_share"] is None
    assert "coverage.gpu_ns_in_ranges_share" in named
    assert "hidden_syncs.saving_ns" in named


def test_coverage_of_several_processes_is_added_up() -> None:
    found = coverage(
        kernels=[
            Kernel(10_000, 11_000, correlation=5),
            Kernel(10_000, 11_000, correlation=5, process=global_pid(77), launch=None),
        ]
    )
    assert (found["operations"], found["operations_with_launch"]) == (2, 1)
