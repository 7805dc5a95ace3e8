"""What users of profilers ran into, answered: CUDA graphs (C), overlap and idle time (D).

The names carry the numbers of the cases; each docstring says where the symptom was reported.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from overlapaudit.rules.catalogue import page
from tests.cli import conftest
from tests.cli.conftest import Run
from tests.support import (
    audit_file,
    audit_of,
    codes,
    copies,
    finding,
    lanes,
    only_device,
    overlaps,
    pair,
)
from tests.tracebuilder import (
    ApiCall,
    Copy,
    GraphLaunch,
    GraphNode,
    Kernel,
    Memset,
    Range,
    Sync,
    graph_node_id,
    make_trace,
    nvtx_domain,
)

run = conftest.run

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
OURS = nvtx_domain("overlapaudit", 1)


def ours(text: str, start_ns: int, end_ns: int) -> Range:
    return Range(text, start_ns, end_ns, domain=1)


def node(start_ns: int, end_ns: int, number: int = 1, **kwargs: Any) -> Kernel:
    """Give a kernel of the replayed graph 2."""
    return Kernel(start_ns, end_ns, GEMM, graph_node=graph_node_id(2, number), **kwargs)


def phases(document: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Give (busy, operations) of each level and phase."""
    spans = document["spans"]
    return {f"{one['level']}.{one['phase']}": (one["busy_ns"], one["operations"]) for one in spans}


def test_c1_what_ran_inside_a_replay_is_not_known(run: Run, tmp_path: Path) -> None:
    """NVTX#115, pegainfer#163: by default a whole replay is one block."""
    trace = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(10_000, 20_000, GEMM)],
        graph_launches=[GraphLaunch(20_000, 120_000)],
    )
    document = audit_file(trace)
    assert lanes(only_device(document)) == {"compute": 10_000, "graph": 100_000}
    assert document["coverage"]["opaque_graph_ns"] == 100_000
    found = finding(document, "OA002")
    assert (found["severity"], found["evidence"]["opaque_ns"]) == ("warning", 100_000)
    assert "--cuda-graph-trace=node" in found["next_step"]
    assert "what ran inside graphs was not recorded" in run("audit", trace).out
    doctor = " ".join(run("doctor", trace).out.split())
    assert "CUDA graphs as graph" in doctor
    assert "overlap inside them cannot be measured" in doctor
    assert "record with --cuda-graph-trace=node" in doctor


def test_c1_node_mode_is_told_from_graph_mode(run: Run, tmp_path: Path) -> None:
    trace = make_trace(tmp_path / "t.sqlite", kernels=[node(10_000, 20_000)])
    assert "CUDA graphs as      node" in run("doctor", trace).out
    assert "OA002" not in codes(audit_file(trace))


def test_c2_graph_launches_without_rows_are_unknown_not_idle(run: Run, tmp_path: Path) -> None:
    """Hyperloom#1047, TraceLens#728: 99.1 % idle on a busy GPU."""
    trace = make_trace(
        tmp_path / "t.sqlite",
        schema="2023.4",
        kernels=[Kernel(10_000, 20_000, GEMM), Kernel(990_000, 1_000_000, GEMM)],
        graph_launches=[GraphLaunch(20_000, 990_000)],
    )
    document = audit_file(trace)
    device = only_device(document)
    assert device["busy_ns"] is device["idle_ns"] is device["lanes"]["graph"] is None
    assert finding(document, "OA002")["evidence"]["graph_launches_without_gpu_rows"] == 1
    assert "idle unknown (unknown)" in run("audit", trace).out


def test_c3_a_launch_of_many_nodes_is_one_launch() -> None:
    """nsys-ai#236, #569: the launch charged once a node."""
    nodes = [node(10_000 + 10 * n, 10_009 + 10 * n, n, correlation=5) for n in range(266)]
    document = audit_of(kernels=nodes, ranges=[OURS, ours("iteration.step", 4_000, 9_000)])
    coverage = document["coverage"]
    assert (coverage["operations"], coverage["operations_with_launch"]) == (266, 266)
    assert (coverage["launches"], coverage["launches_with_operation"]) == (1, 1)
    (step,) = document["spans"]
    assert (step["host_ns"], step["operations"]) == (5_000, 266)


def test_c4_nodes_that_match_no_call_are_kept() -> None:
    """tracy#1318, HTA#290: kernels of graphs dropped, for no API call has their id."""
    document = audit_of(
        kernels=[node(10_000, 20_000, launch=None), node(25_000, 30_000, 2, launch=None)],
        api_calls=[ApiCall("cudaGraphLaunch_v10000", 1_000, 2_000)],
    )
    assert lanes(only_device(document)) == {"compute": 15_000}
    coverage = document["coverage"]
    assert (coverage["operations"], coverage["operations_with_launch"]) == (2, 0)


@pytest.mark.parametrize("mapped", [True, False])
def test_c5_ranges_of_the_capture_are_not_those_of_the_replay(mapped: bool) -> None:
    """cccl#1674: the ranges cover the capture. A layer has its replays where nodes are mapped."""
    origins = [
        GraphNode(graph_node_id(1, 1), start_ns=150),
        GraphNode(graph_node_id(2, 1), graph_node_id(1, 1), start_ns=180),
    ]
    document = audit_of(
        kernels=[node(10_000, 12_000, launch=ApiCall("cudaGraphLaunch_v10000", 5_000, 5_100))],
        graph_nodes=origins if mapped else [],
        ranges=[
            OURS,
            ours("iteration.model", 100, 200),
            ours("layer.attn", 120, 190),
            ours("iteration.step", 4_000, 6_000),
        ],
    )
    assert phases(document) == {
        "iteration.model": (0, 0),
        "iteration.step": (2_000, 1),
        "layer.attn": (2_000, 1) if mapped else (0, 0),
    }


def test_c6_advice_to_trace_nodes_names_its_price() -> None:
    """NeMo-RL#4090, NVTX#115: node mode costs time."""
    document = audit_of(graph_launches=[GraphLaunch(20_000, 120_000)])
    assert "it costs time per node" in finding(document, "OA002")["next_step"]
    assert "It costs time for every node" in page("OA002")


def test_d1_lanes_are_united_before_they_are_intersected() -> None:
    """Overlap with two concurrent kernels summed: hidden 16, exposed -6."""
    device = only_device(
        audit_of(
            kernels=[
                Kernel(0, 8, GEMM),
                Kernel(0, 8, GEMM, stream=8),
                Kernel(0, 10, NCCL, stream=9),
            ]
        )
    )
    assert pair(device, "comm", "compute") == {
        "a": "comm",
        "b": "compute",
        "a_ns": 10,
        "b_ns": 8,
        "overlap_ns": 8,
        "exposed_a_ns": 2,
        "exposed_b_ns": 0,
    }


def test_d2_what_crosses_the_edge_of_a_window_is_clipped() -> None:
    """Kernels across the edges dropped: nothing in [10, 20)."""
    device = only_device(
        audit_of(window="10ns..20ns", kernels=[Kernel(0, 30, GEMM), Kernel(5, 25, NCCL, stream=9)])
    )
    assert (device["window_ns"], device["busy_ns"]) == (10, 10)
    assert lanes(device) == {"compute": 10, "comm": 10}
    assert overlaps(device) == {"comm&compute": 10}


def test_d3_idle_is_of_the_device_not_of_its_streams() -> None:
    """nsys-ai#240, #241: gaps of streams summed, on a device that was never idle."""
    kernels = [Kernel(10 * n, 10 * n + 10, GEMM, stream=n % 2) for n in range(10)]
    assert only_device(audit_of(kernels=kernels))["idle_ns"] == 0


def test_d4_copies_are_no_idle_time() -> None:
    """nsys-ai#599: copies counted as idle."""
    device = only_device(
        audit_of(
            kernels=[Kernel(0, 22, GEMM), Kernel(970, 980, NCCL)],
            copies=[Copy(22, 962, "h2d"), Copy(965, 970, "d2h")],
        )
    )
    assert lanes(device) == {"compute": 22, "comm": 10, "copy": 945}
    assert (device["window_ns"], device["idle_ns"]) == (980, 3)


def test_d5_hidden_communication_is_not_exposed_whatever_its_sum() -> None:
    """nsys-ai#232, #233: per-stream sums called well-hidden communication bound."""
    device = only_device(
        audit_of(
            kernels=[
                Kernel(0, 100, GEMM),
                *(Kernel(0, 90, NCCL, stream=stream) for stream in range(10, 14)),
                Kernel(95, 105, NCCL, stream=10),
            ]
        )
    )
    assert lanes(device) == {"compute": 100, "comm": 100}
    assert device["exposed"]["comm"] == pair(device, "comm", "compute")["exposed_a_ns"] == 5
    assert overlaps(device)["comm&compute"] == 95


def test_d6_waits_do_not_occupy_the_device() -> None:
    """HTA#149, #162: records of synchronisation taken for kernels raise the overlap."""
    content: dict[str, Any] = {
        "kernels": [Kernel(10_000, 20_000, GEMM), Kernel(50_000, 60_000, NCCL, stream=9)],
        "memsets": [Memset(30_000, 31_000)],
    }
    syncs = [Sync(9_000, 70_000, "stream_sync"), Sync(9_000, 70_000, "device_sync")]
    without, device = (
        only_device(audit_of(**content)),
        only_device(audit_of(syncs=syncs, **content)),
    )
    assert device == without
    assert (device["busy_ns"], device["idle_ns"], overlaps(device)) == (21_000, 29_000, {})


def test_d7_without_communication_there_is_no_share_of_it(run: Run, tmp_path: Path) -> None:
    """HTA#56: NaN."""
    trace = make_trace(tmp_path / "t.sqlite", kernels=[Kernel(10, 20, GEMM)])
    done = run("audit", trace, "--json", "-")
    assert "NaN" not in done.out
    device = only_device(json.loads(done.out))
    assert [(one["a"], one["b"]) for one in device["overlap"]] == [("compute", "compute")]
    assert "comm" not in run("audit", trace).out.partition("coverage")[0]


@pytest.mark.parametrize(
    "name",
    [
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, int)",
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)",
        "void deep_ep::internode_ll::combine<true, 7168, 9>(void*)",
        NCCL,
    ],
)
def test_d7_communication_of_engines_is_communication(name: str) -> None:
    """Tools that know NCCL's names alone give NaN or 0 %."""
    device = only_device(audit_of(kernels=[Kernel(0, 10, name), Kernel(4, 20, GEMM, stream=9)]))
    assert lanes(device) == {"compute": 16, "comm": 10}
    assert overlaps(device) == {"comm&compute": 6}


def test_d7_what_no_rule_knows_is_said_and_can_be_named(run: Run, tmp_path: Path) -> None:
    trace = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(10_000, 40_000, GEMM), Kernel(40_000, 50_000, "my_all_to_all<int>")],
    )
    text = run("audit", trace).out
    assert "kernels without a class: 10.000 µs, 25.0 % of compute" in text
    assert finding(audit_file(trace), "OA008")["evidence"]["longest"] == ["my_all_to_all<int>"]
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [["comm.mine", "^my_all_to_all"]]}')
    document = json.loads(run("audit", trace, "--rules", rules, "--json", "-").out)
    assert lanes(only_device(document)) == {"compute": 30_000, "comm": 10_000}
    assert "OA008" not in codes(document)


def test_d8_the_kind_does_not_come_from_the_table(tmp_path: Path) -> None:
    """nccl#1896: collectives by the copy engine; LMCache#766: copies to the device by a kernel."""
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(0, 10, "void transfer_kv_per_layer<long>(void*)")],
        copies=[Copy(10, 30, "p2p")],
    )
    device = only_device(audit_file(path))
    assert lanes(device) == {"compute": 10, "comm": 20}
    assert copies(device) == {"p2p": 20}
    with oa.open_trace(path) as trace:
        assert trace.operations["class"].to_list() == ["kv_xfer", None]


def test_d9_kernels_of_one_stream_may_overlap(run: Run, tmp_path: Path) -> None:
    """perfetto#4280, cccl#11569: sums exceed the wall under programmatic dependent launch."""
    trace = make_trace(
        tmp_path / "t.sqlite", kernels=[Kernel(0, 60, GEMM), Kernel(40, 100, GEMM, stream=7)]
    )
    device = only_device(audit_file(trace))
    assert (device["window_ns"], device["busy_ns"], device["idle_ns"]) == (100, 100, 0)
    assert lanes(device) == {"compute": 100}
    assert overlaps(device) == {}


def test_d10_no_length_and_no_time_are_counted() -> None:
    """kineto#109, #136: kernels of duration 0, or at time 0."""
    document = audit_of(
        kernels=[Kernel(100, 100, GEMM), Kernel(0, 0, GEMM), Kernel(150, 200, GEMM)]
    )
    device = only_device(document)
    assert document["coverage"]["operations"] == 3
    assert (device["window_ns"], device["busy_ns"]) == (100, 50)
    reasons = [gap["why"] for gap in document["coverage"]["not_recorded"]]
    assert "1 operations have no time that can be, and count in no lane" in reasons


@pytest.mark.parametrize(("corrupt", "severity"), [(1, "warning"), (2, "error")])
def test_d11_work_before_its_launch_is_reported(corrupt: int, severity: str) -> None:
    """pytorch#192021: a kernel starts before its own launch."""
    late = ApiCall("cudaLaunchKernel_v7000", 5_000_000, 5_001_000)
    bad = [Kernel(3_000_000, 3_001_000, GEMM, launch=late)] * corrupt
    good = [Kernel(10_000 * n, 10_000 * n + 9_000, GEMM) for n in range(1, 151)]
    found = finding(audit_of(kernels=good + bad), "OA004")
    assert found["severity"] == severity
    assert found["evidence"]["operations_before_their_launch"] == corrupt
    assert "do not trust times that relate the host to the GPU" in found["next_step"]


@pytest.mark.parametrize(("start_ns", "violations"), [(30_000, 0), (19_000, 0), (18_999, 1)])
def test_d12_clocks_differ_by_a_microsecond(start_ns: int, violations: int) -> None:
    """kineto#991, #1082: sub-µs inversions. To start before the call returns is normal."""
    call = ApiCall("cudaLaunchKernel_v7000", 20_000, 40_000)
    document = audit_of(kernels=[Kernel(start_ns, 50_000, GEMM, launch=call)])
    assert document["coverage"]["clock_violations"] == violations
    assert ("OA004" in codes(document)) == bool(violations)


def test_d13_no_share_exceeds_the_whole(run: Run, tmp_path: Path) -> None:
    """nsys-ai#493, #500: "1912.7 % of GPU time", for a check did not know of the window."""
    trace = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(0, 90_000_000, "unheard_of", stream=n) for n in range(20)],
        copies=[Copy(0, 90_000_000, "h2d", stream=n) for n in range(20)],
    )
    text = run("audit", trace, "--window", "1us..11us").out
    shares = [float(share) for share in re.findall(r"([\d.]+) %", text)]
    assert max(shares) == 100.0
    document = json.loads(run("audit", trace, "--window", "1us..11us", "--json", "-").out)
    assert only_device(document)["window_ns"] == 10_000
    assert only_device(document)["unclassified_ns"] == 10_000
    assert finding(document, "OA008")["evidence"]["kernel_ns"] == 10_000


@pytest.mark.parametrize("window", ["1ms..2ms", "20us..30us", "0ns..10us"])
def test_d14_a_window_without_work_is_a_wrong_request(
    run: Run, tmp_path: Path, window: str
) -> None:
    """nsys-ai#462, #611: read as healthy."""
    trace = make_trace(tmp_path / "t.sqlite", kernels=[Kernel(10_000, 20_000, GEMM)])
    done = run("audit", trace, "--window", window)
    assert (done.status, done.out) == (2, "")
    assert done.complaint.startswith("--window: no GPU work between")
    assert done.complaint.endswith("it runs from 10000ns to 20000ns")


def test_d14_an_empty_window_is_a_wrong_request(run: Run, tmp_path: Path) -> None:
    trace = make_trace(tmp_path / "t.sqlite", kernels=[Kernel(10_000, 20_000, GEMM)])
    done = run("audit", trace, "--window", "15us..15us")
    assert (done.status, done.complaint) == (2, "--window 15us..15us: is empty")


def test_d14_a_window_beyond_the_capture_does_not_grow_it() -> None:
    """nsys-ai#614: idle time that was never recorded."""
    device = only_device(audit_of(window="15us..2ms", kernels=[Kernel(10_000, 20_000, GEMM)]))
    assert (device["window_ns"], device["busy_ns"], device["idle_ns"]) == (5_000, 5_000, 0)


def test_d15_every_device_has_its_row(run: Run, tmp_path: Path) -> None:
    """nsys-ai#127, #135: device 0 alone."""
    trace = make_trace(
        tmp_path / "t.sqlite",
        kernels=[
            Kernel(0, 10 + device, GEMM, device=device, context=1 + device) for device in range(4)
        ],
    )
    devices = audit_file(trace)["devices"]
    assert [(one["device"], one["busy_ns"]) for one in devices] == [
        (0, 10),
        (1, 11),
        (2, 12),
        (3, 13),
    ]
    text = run("audit", trace).out
    assert [f"device {number} · pid 1000" in text for number in range(5)] == [True] * 4 + [False]


def test_d16_nothing_is_trimmed() -> None:
    """nsys-ai#133: 13.9 % idle hidden by a trim to 20 s."""
    second = 10**9
    device = only_device(
        audit_of(
            kernels=[
                Kernel(second, 87 * second, GEMM),
                Kernel(101 * second - 1, 101 * second, GEMM),
            ]
        )
    )
    assert (device["window_ns"], device["idle_ns"]) == (100 * second, 14 * second - 1)


def test_d17_exposed_time_is_printed_whatever_its_size(run: Run, tmp_path: Path) -> None:
    """nsys-ai#252, #278: reported by nobody between two thresholds."""
    trace = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(10_000, 1_000_000, GEMM), Kernel(900_000, 1_000_007, NCCL, stream=9)],
    )
    document = audit_file(trace)
    assert only_device(document)["exposed"]["comm"] == 7
    rows = [line.split()[:5] for line in run("audit", trace).out.splitlines()]
    assert ["comm", "100.007", "10.1", "%", "0.007"] in rows
