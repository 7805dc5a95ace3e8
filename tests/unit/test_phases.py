"""Sums by level and phase, and lanes that share the kernels' stream, of hand-made traces."""

from __future__ import annotations

from typing import Any

from tests.support import audit_of, codes, finding
from tests.tracebuilder import (
    ApiCall,
    Copy,
    GraphNode,
    Kernel,
    Range,
    graph_node_id,
    nvtx_domain,
)

DOMAIN = 1
OURS = nvtx_domain("overlapaudit", DOMAIN)


def step(start_ns: int, end_ns: int | None, text: str = "iteration.step|tokens=5") -> Range:
    return Range(text, start_ns, end_ns, domain=DOMAIN)


def launch(start_ns: int) -> ApiCall:
    return ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + 100)


def phases(**content: Any) -> dict[str, tuple[int, int, int, int, int]]:
    return {
        f"{one['level']}.{one['phase']}": (
            one["count"],
            one["host_ns"],
            one["span_ns"],
            one["busy_ns"],
            one["operations"],
        )
        for one in audit_of(**content)["spans"]
    }


TWO_STEPS: dict[str, Any] = {
    "ranges": [OURS, step(0, 5_000), step(1_000, 2_000, "iteration.model"), step(5_000, 9_000)],
    "kernels": [
        Kernel(10_000, 12_000, launch=launch(1_100)),
        Kernel(13_000, 14_000, launch=launch(1_900)),
        Kernel(11_000, 13_500, stream=9, launch=launch(6_000)),
        Kernel(20_000, 21_000, launch=launch(9_000)),  # behind the last step
    ],
}


def test_sums_of_levels_and_phases() -> None:
    assert phases(**TWO_STEPS) == {
        "iteration.step": (2, 9_000, 4_000 + 2_500, 3_000 + 2_500, 3),
        "iteration.model": (1, 1_000, 4_000, 3_000, 2),
    }


def test_a_window_keeps_ranges_whose_work_runs_in_it() -> None:
    # Both steps were closed on the host long before their work ran.
    assert phases(window="11us..13us", **TWO_STEPS) == {
        "iteration.step": (2, 0, 1_000 + 2_000, 1_000 + 2_000, 2),
        "iteration.model": (1, 0, 1_000, 1_000, 1),
    }


def test_a_range_that_was_not_closed_has_no_host_time_but_work() -> None:
    content = {**TWO_STEPS, "ranges": [OURS, step(0, None)]}
    assert phases(**content)["iteration.step"] == (1, 0, 11_000, 5_000, 4)


def node(start_ns: int, correlation: int, launched_ns: int) -> Kernel:
    call = ApiCall("cudaGraphLaunch_v10000", launched_ns, launched_ns + 50, correlation=correlation)
    return Kernel(
        start_ns, start_ns + 500, graph_node=graph_node_id(2, 1), correlation=correlation,
        launch=call,
    )  # fmt: skip


CAPTURED = [
    GraphNode(graph_node_id(1, 1), start_ns=150),
    GraphNode(graph_node_id(2, 1), graph_node_id(1, 1), start_ns=900),
]


def test_replays_belong_to_the_layer_of_their_capture() -> None:
    found = phases(
        ranges=[OURS, step(100, 200, "layer.attn"), step(1_000, 4_000)],
        graph_nodes=CAPTURED,
        kernels=[node(10_000, 1, 1_500), node(20_000, 2, 2_500)],
    )
    # Each replay is an envelope of its own: nothing spans from one to the next.
    assert found["layer.attn"] == (1, 100, 1_000, 1_000, 2)
    assert found["iteration.step"] == (1, 3_000, 10_500, 1_000, 2)


def test_a_replay_inside_a_layer_counts_once() -> None:
    found = phases(
        ranges=[OURS, step(100, 200, "layer.attn"), step(1_400, 1_600, "layer.attn")],
        graph_nodes=CAPTURED,
        kernels=[node(10_000, 1, 1_500), node(20_000, 2, 2_500)],
    )
    assert found["layer.attn"] == (2, 300, 1_000, 1_000, 2)


def test_copies_on_the_kernels_stream() -> None:
    kernels = [Kernel(100_000, 200_000, "gemm")]
    document = audit_of(kernels=kernels, copies=[Copy(200_000, 260_000, "h2d")])
    found = finding(document, "OA201")
    assert (found["cost_ns"], found["evidence"]["overlap_ns"]) == (60_000, 0)
    assert found["severity"] == "warning"
    apart = audit_of(kernels=kernels, copies=[Copy(200_000, 260_000, "h2d", stream=9)])
    assert "OA201" not in codes(apart)
    # In a window of 4 ms, of which both bounds (20 µs and half a per cent) are the same.
    long = [Kernel(100_000, 4_080_000, "gemm")]
    for end_ns, reported in ((4_100_000, True), (4_099_999, False)):
        small = audit_of(kernels=long, copies=[Copy(4_080_000, end_ns, "h2d")])
        assert ("OA201" in codes(small)) is reported


def test_copies_on_the_device_do_not_lower_the_price() -> None:
    document = audit_of(
        kernels=[Kernel(100_000, 200_000, "gemm")],
        copies=[Copy(200_000, 260_000, "h2d"), Copy(100_000, 190_000, "d2d", stream=9)],
    )
    evidence = finding(document, "OA201")["evidence"]
    assert (evidence["lane_ns"], evidence["overlap_ns"]) == (60_000, 0)
    assert finding(document, "OA201")["cost_ns"] == 60_000
