"""What users of profilers ran into, answered: steps, ranks and short kernels (B, E).

The names carry the numbers of the cases; each docstring says where the symptom was reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapaudit.model.errors import UsageError
from tests.support import audit_file, audit_of, codes, finding
from tests.tracebuilder import (
    ApiCall,
    GraphLaunch,
    Kernel,
    Range,
    Sync,
    global_pid,
    make_trace,
    nvtx_domain,
)

MS = 1_000_000
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
OURS = nvtx_domain("overlapaudit", 1)


def launch(start_ns: int) -> ApiCall:
    return ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + 5_000)


def all_reduces(rank: int, entries: list[tuple[int, int]]) -> list[Kernel]:
    process = global_pid(1000 + rank)
    return [Kernel(start, end, ALL_REDUCE, process=process, stream=20) for start, end in entries]


def test_b9_repeated_work_without_markers_makes_no_steps() -> None:
    """nsys-ai#215/#253: 84 "iterations" in a capture without a loop."""
    content: dict[str, Any] = {
        "kernels": [
            Kernel(MS * n, MS * n + 900_000, GEMM, launch=launch(MS * n - 9_000))
            for n in range(1, 85)
        ],
        "graph_launches": [GraphLaunch(MS * n + 910_000, MS * n + 950_000) for n in range(1, 85)],
        "ranges": [Range("warm-up", 0, 85 * MS)],
    }
    document = audit_of(**content)
    assert all(not one["where"]["windows"] for one in document["findings"])
    with pytest.raises(UsageError, match="no step is marked"):
        audit_of(window="iteration", **content)


def test_b11_a_step_that_the_capture_cuts_is_never_weighed() -> None:
    """JAX-Toolbox: the last occurrence of a range is skipped by hand, as it may be cut."""

    def document(last_end_ns: int | None, window: str = "trace") -> dict[str, Any]:
        steps = [(0, 2 * MS), (2 * MS, 4 * MS), (4 * MS, last_end_ns)]
        kernels, syncs = [], []
        for at, _ in steps:
            for called, start, end in (
                (100_000, 110_000, 1_000_000),
                (1_240_000, 1_250_000, 1_990_000),
            ):
                kernels.append(Kernel(at + start, at + end, GEMM, launch=launch(at + called)))
            syncs.append(Sync(at + 300_000, at + 1_006_000, "stream_sync"))
        ranges = [
            Range("iteration.step", at, end, domain=1, payload=number)
            for number, (at, end) in enumerate(steps)
        ]
        return audit_of(
            window=window,
            kernels=kernels,
            syncs=syncs,
            ranges=[OURS, *ranges],
            duration_ns=6 * MS,
        )

    def iterations(found: dict[str, Any]) -> list[int]:
        return [one["id"] for one in finding(found, "OA502")["where"]["windows"]]

    assert iterations(document(6 * MS - 1)) == [0, 1, 2]
    assert iterations(document(None)) == [0, 1]
    # The wait in the cut step still counts for the whole, and not where only steps are asked for.
    assert finding(document(None), "OA502")["cost_ns"] == 750_000
    assert finding(document(None, "iteration"), "OA502")["cost_ns"] == 500_000


def test_e16_a_rank_that_waits_in_an_all_reduce_communicates_only_after() -> None:
    """vllm#52777: the all-reduce of the rank that came first is mostly waiting."""
    kernels = [*all_reduces(0, [(1_000, 901_000)]), *all_reduces(1, [(881_000, 901_000)])]
    document = audit_of(kernels=kernels)
    assert document["ranks"]["clocks"] == "one_session"
    assert [
        (one["rank"], one["wait_ns"], one["transfer_ns"])
        for one in document["ranks"]["collectives"]
    ] == [(0, 880_000, 20_000), (1, 0, 20_000)]


def test_e17_clocks_of_two_hosts_are_11_seconds_apart(tmp_path: Path) -> None:
    """hw-native-sys/simpler#2099: 11.56 s between the clocks, 1.60 ms between the ranks."""
    gaps = np.random.default_rng(5).integers(4 * MS, 6 * MS, 40)
    ends = [int(end) for end in np.cumsum(gaps)]
    offset_ns = 11_560 * MS
    here = [(end - 1_620_000, end) for end in ends]
    there = [(end - 20_000 + offset_ns, end + offset_ns) for end in ends]
    document = audit_file(
        make_trace(tmp_path / "0.sqlite", kernels=all_reduces(0, here)),
        make_trace(tmp_path / "1.sqlite", kernels=all_reduces(1, there)),
    )
    assert (document["ranks"]["clocks"], document["ranks"]["residual_ns"]) == ("aligned", 0)
    assert [
        (one["rank"], one["matched"], one["wait_ns"], one["transfer_ns"])
        for one in document["ranks"]["collectives"]
    ] == [(0, 40, 40 * 1_600_000, 40 * 20_000), (1, 40, 0, 40 * 20_000)]


def test_e17_clocks_that_nothing_aligns_are_not_compared(tmp_path: Path) -> None:
    """NPKit#20, JAX: files of other hosts, or with another number of collectives."""
    document = audit_file(
        make_trace(tmp_path / "0.sqlite", kernels=all_reduces(0, [(1_000, 2_000)])),
        make_trace(tmp_path / "1.sqlite", kernels=[Kernel(5_000, 6_000, GEMM)]),
    )
    assert document["ranks"]["clocks"] == "not_comparable"
    assert {one["wait_ns"] for one in document["ranks"]["collectives"]} <= {None}
    assert "OA703" not in codes(document)


@pytest.mark.parametrize(("lasts_ns", "said"), [(9_000, True), (11_000, False)])
def test_e25_where_kernels_are_short_the_price_of_tracing_is_said(
    lasts_ns: int, said: bool
) -> None:
    """pytorch#82793, kineto#325, TensorRT#3432: what is launch-bound looks worse when traced."""
    kernels = [Kernel(30_000 * n, 30_000 * n + lasts_ns, GEMM) for n in range(1, 101)]
    document = audit_of(kernels=kernels)
    assert ("OA006" in codes(document)) is said
    if said:
        assert finding(document, "OA006")["evidence"]["median_kernel_ns"] == lasts_ns
