"""The same collective on several ranks: who waited for whom, how long, and who came late."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overlapaudit as oa
from overlapaudit.analysis.peer_waits import rank_times
from tests.support import audit_file, audit_of, codes
from tests.tracebuilder import (
    ApiCall,
    Context,
    Copy,
    Kernel,
    Range,
    Sync,
    global_pid,
    graph_node_id,
    main_thread,
    make_trace,
    nvtx_domain,
)

MS = 1_000_000
SECOND = 1_000 * MS

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE_SCATTER = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
CUSTOM = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)"

STEPS, NCCL = 1, 5
Entries = Sequence[tuple[int, int]]
Sums = tuple[int, int | None, int | None, int | None]


def process(rank: int) -> int:
    return global_pid(1000 + rank)


def collective(
    rank: int, start_ns: int, end_ns: int, name: str = ALL_REDUCE, stream: int = 20
) -> Kernel:
    return Kernel(start_ns, end_ns, name, process=process(rank), stream=stream)


def row(
    rank: int, entries: Entries, name: str = ALL_REDUCE, stream: int = 20, shift_ns: int = 0
) -> list[Kernel]:
    return [collective(rank, s + shift_ns, e + shift_ns, name, stream) for s, e in entries]


def rows(*ranks: Entries, name: str = ALL_REDUCE) -> list[Kernel]:
    return [kernel for rank, entries in enumerate(ranks) for kernel in row(rank, entries, name)]


def every(count: int, period_ns: int, lasts_ns: int = 30_000, after_ns: int = 0) -> Entries:
    starts = [number * period_ns + after_ns for number in range(count)]
    return [(start, start + lasts_ns) for start in starts]


def later(entries: Entries, ns: int) -> Entries:
    return [(start + ns, end + ns) for start, end in entries]


def sums(document: dict[str, Any], kind: str = "AllReduce") -> dict[int, Sums]:
    """Give (matched, wait, transfer, entered last) of each rank."""
    return {
        one["rank"]: (one["matched"], one["wait_ns"], one["transfer_ns"], one["entered_last"])
        for one in document["ranks"]["collectives"]
        if one["kind"] == kind
    }


def matches(document: dict[str, Any], kind: str = "AllReduce") -> dict[int, int]:
    return {rank: one[0] for rank, one in sums(document, kind).items()}


def late(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in document["findings"] if one["code"] == "OA703"]


def late_ranks(document: dict[str, Any]) -> list[int]:
    return sorted(one["where"]["rank"] for one in late(document))


# Wait and transfer


def test_a_wait_lasts_until_the_last_one_enters(tmp_path: Path) -> None:
    kernels = rows([(100_000, 500_000)], [(250_000, 500_000)], [(400_000, 500_000)])
    assert sums(audit_of(kernels=kernels)) == {
        0: (1, 300_000, 100_000, 0),
        1: (1, 150_000, 100_000, 0),
        2: (1, 0, 100_000, 1),
    }
    with oa.open_trace(make_trace(tmp_path / "trace.sqlite", kernels=kernels)) as trace:
        times = rank_times([trace])
    assert times is not None
    found = times.waits.sort("process").select("wait_ns", "late_ns", "is_last", "number")
    assert found.rows() == [
        (300_000, 0, False, 0),
        (150_000, 150_000, False, 0),
        (0, 300_000, True, 0),
    ]
    assert {
        key: spins.pairs() for key, spins in times.spinning(0).items()
    } == {
        (process(0), 0): [(100_000, 400_000)],
        (process(1), 0): [(250_000, 400_000)],
    }  # fmt: skip


def test_the_rest_is_transfer_whenever_a_rank_leaves() -> None:
    kernels = rows([(100_000, 500_001)], [(400_000, 497_000)])
    assert sums(audit_of(kernels=kernels)) == {
        0: (1, 300_000, 100_001, 0),
        1: (1, 0, 97_000, 1),
    }


def test_two_may_enter_last() -> None:
    kernels = rows([(100, 500)], [(300, 500)], [(300, 500)])
    assert sums(audit_of(kernels=kernels)) == {
        0: (1, 200, 200, 0),
        1: (1, 0, 200, 1),
        2: (1, 0, 200, 1),
    }


def test_one_rank_tells_nothing() -> None:
    document = audit_of(kernels=rows([(100, 500)]))
    assert document["ranks"] is None
    assert "ranks" in [one["what"] for one in document["coverage"]["not_recorded"]]


def test_two_devices_of_one_process_wait_for_each_other() -> None:
    kernels = [
        Kernel(100, 500, ALL_REDUCE),
        Kernel(300, 500, ALL_REDUCE, device=1, context=2, stream=15),
    ]
    found = audit_of(kernels=kernels, contexts=[Context(1), Context(2, 1)])["ranks"]
    assert [(one["device"], one["wait_ns"]) for one in found["collectives"]] == [(0, 200), (1, 0)]


def test_kinds_are_summed_apart() -> None:
    document = audit_of(
        kernels=[
            *rows([(0, 900), (2_000, 2_900)], [(100, 900), (2_300, 2_900)]),
            *rows([(1_000, 1_900)], [(1_500, 1_900)], name=ALL_GATHER),
            collective(1, 3_000, 3_100, BROADCAST),
        ]
    )
    assert sums(document) == {0: (2, 400, 1_400, 0), 1: (2, 0, 1_400, 2)}
    assert sums(document, "AllGather") == {0: (1, 500, 400, 0), 1: (1, 0, 400, 1)}
    assert sums(document, "Broadcast") == {1: (0, None, None, None)}
    counts = {(one["rank"], one["kind"]): one["count"] for one in document["ranks"]["collectives"]}
    assert counts == {
        (0, "AllGather"): 1,
        (0, "AllReduce"): 2,
        (1, "AllGather"): 1,
        (1, "AllReduce"): 2,
        (1, "Broadcast"): 1,
    }


def test_more_than_two_that_send_and_receive_are_not_matched() -> None:
    assert matches(audit_of(kernels=rows(*[[(0, 900)]] * 3, name=SEND_RECV)), "SendRecv") == {
        0: 0,
        1: 0,
        2: 0,
    }


@given(
    st.integers(2, 5),
    st.lists(st.lists(st.integers(0, 80_000), min_size=5, max_size=5), min_size=1, max_size=6),
    st.booleans(),
)
@settings(max_examples=15)
def test_waits_by_hand(ranks: int, late_ns: list[list[int]], several_files: bool) -> None:
    count = max(4, len(late_ns))
    late_by = np.array([late_ns[number % len(late_ns)][:ranks] for number in range(count)])
    gaps = np.random.default_rng(count).integers(200_000, 400_000, count)
    starts = np.cumsum(gaps)[:, None] + late_by
    ends = np.cumsum(gaps) + 100_000
    entries = [
        [(int(s), int(e)) for s, e in zip(starts[:, rank], ends, strict=True)]
        for rank in range(ranks)
    ]
    last = late_by.max(axis=1)
    expected = {
        rank: (
            count,
            int((last - late_by[:, rank]).sum()),
            int((100_000 - last).sum()),
            int((late_by[:, rank] == last).sum()),
        )
        for rank in range(ranks)
    }
    if several_files:
        shifts = [rank * 7 * SECOND for rank in range(ranks)]
        assert sums(audit_ranks(*entries, shifts=shifts)) == expected
    else:
        assert sums(audit_of(kernels=rows(*entries))) == expected


def audit_ranks(*ranks: Entries, shifts: Sequence[int]) -> dict[str, Any]:
    """Audit ranks that were recorded in a file each, with clocks that are apart."""
    with TemporaryDirectory() as folder:
        paths = [
            make_trace(
                Path(folder) / f"rank{rank}.sqlite",
                kernels=row(rank, entries, shift_ns=shifts[rank]),
            )
            for rank, entries in enumerate(ranks)
        ]
        return audit_file(*paths)


# Which is the same


def test_stream_ids_differ_between_ranks() -> None:
    document = audit_of(
        kernels=[
            *row(0, every(5, 300_000), stream=20),
            *row(1, later(every(5, 300_000, 20_000), 10_000), stream=44),
        ]
    )
    assert sums(document) == {0: (5, 50_000, 100_000, 0), 1: (5, 0, 100_000, 5)}


def test_streams_of_one_kind_belong_together_in_the_order_of_their_use() -> None:
    first, second = every(5, 900_000), later(every(5, 900_000), 400_000)
    document = audit_of(
        kernels=[
            *row(0, first, stream=20),
            *row(0, second, stream=21),
            *row(1, first, stream=35),
            *row(1, second, stream=33),
        ]
    )
    assert matches(document) == {0: 10, 1: 10}


@pytest.mark.parametrize(("apart_ns", "name"), [
    (400_000, ALL_REDUCE),
    # One has left before the other enters: it cannot have been the same.
    (40_000, ALL_REDUCE),
    (60_000, REDUCE_SCATTER),
])  # fmt: skip
def test_groups_of_two_are_not_mixed(apart_ns: int, name: str) -> None:
    one = every(10, MS)
    other = later(one, apart_ns)
    # In each group one enters 5 µs after the other.
    kernels = rows(
        one, [(s + 5_000, e) for s, e in one], other, [(s + 5_000, e) for s, e in other], name=name
    )
    document = audit_of(kernels=kernels)
    kind = "AllReduce" if name == ALL_REDUCE else "ReduceScatter"
    for rank, of_rank in sums(document, kind).items():
        # Where nothing tells the groups apart they may be left out, but never put together.
        expected = (10, 50_000, 250_000, 0) if rank % 2 == 0 else (10, 0, 250_000, 10)
        assert of_rank in (expected, (0, None, None, None))
    assert "OA703" not in codes(document)
    if name == ALL_REDUCE:
        assert matches(document) == {0: 10, 1: 10, 2: 10, 3: 10}


def enqueued(rank: int, start_ns: int, communicator: int, lasts_ns: int = 4_000) -> Range:
    payload = json.dumps({"NCCL communicator ID": communicator, "Message size [bytes]": 4096})
    return Range(
        "ncclAllReduce",
        start_ns,
        start_ns + lasts_ns,
        thread=main_thread(process(rank)),
        domain=NCCL,
        json_text=payload,
    )


def domains(ranks: int) -> list[Range]:
    return [nvtx_domain("NCCL", NCCL, process=process(rank)) for rank in range(ranks)]


def with_communicators(kernels: Iterable[Kernel], of_rank: Sequence[int]) -> list[Range]:
    """Give the range in which each kernel is launched, 5 µs before it starts."""
    communicators = {process(rank): (rank, one) for rank, one in enumerate(of_rank)}
    ranges = domains(len(of_rank))
    for kernel in kernels:
        rank, communicator = communicators[kernel.process]
        ranges.append(enqueued(rank, kernel.start_ns - 6_000, communicator))
    return ranges


def test_communicators_tell_groups_apart() -> None:
    # Both groups run at the very same time, half of the time.
    one = every(10, MS, after_ns=100_000)
    other = later(one, 15_000)
    kernels = rows(one, [(s + 5_000, e) for s, e in one], other, [(s + 5_000, e) for s, e in other])
    document = audit_of(kernels=kernels, ranges=with_communicators(kernels, [11, 11, 22, 22]))
    assert sums(document) == {
        0: (10, 50_000, 250_000, 0),
        1: (10, 0, 250_000, 10),
        2: (10, 50_000, 250_000, 0),
        3: (10, 0, 250_000, 10),
    }


def test_communicators_tell_groups_apart_on_one_stream() -> None:
    # All four take part in the world's all-reduces, between those of their pair.
    pairs = [every(8, MS, after_ns=100_000 + 40_000 * (rank // 2)) for rank in range(4)]
    world = [
        [(start + 1_000 * rank, end) for start, end in every(8, MS, after_ns=600_000)]
        for rank in range(4)
    ]
    of_pairs, of_world = rows(*pairs), rows(*world)
    document = audit_of(
        kernels=of_pairs + of_world,
        ranges=[
            *with_communicators(of_pairs, [11, 11, 22, 22]),
            *with_communicators(of_world, [99] * 4)[4:],
        ],
    )
    transfer = 8 * (30_000 + 27_000)
    assert sums(document) == {
        0: (16, 8 * 3_000, transfer, 8),
        1: (16, 8 * 2_000, transfer, 8),
        2: (16, 8 * 1_000, transfer, 8),
        3: (16, 0, transfer, 16),
    }


def test_a_group_of_calls_launches_after_the_range_that_names_it() -> None:
    # ncclGroupEnd launches what ncclAllReduce put into the queue.
    kernels, ranges = [], domains(4)
    for rank in range(4):
        for start, end in every(10, MS, after_ns=100_000 + 15_000 * (rank // 2)):
            kernels.append(collective(rank, start, end))
            ranges.append(enqueued(rank, start - 20_000, 11 if rank < 2 else 22, 2_000))
            ranges.append(
                Range(
                    "ncclGroupEnd",
                    start - 10_000,
                    start - 1_000,
                    thread=main_thread(process(rank)),
                    domain=NCCL,
                )
            )
    document = audit_of(kernels=kernels, ranges=ranges)
    assert sums(document) == dict.fromkeys(range(4), (10, 0, 300_000, 10))


def test_captures_with_communicators_may_be_cut() -> None:
    one = every(10, MS, after_ns=100_000)
    kernels = rows(one, one[1:])
    document = audit_of(kernels=kernels, ranges=with_communicators(kernels, [11, 11]))
    assert matches(document) == {0: 9, 1: 9}


def test_a_replay_is_not_of_the_communicator_that_was_last_used() -> None:
    # At capture all ranks used the world's; the graph holds the all-reduces of two pairs.
    kernels, ranges = [], domains(4)
    for rank in range(4):
        ranges.append(enqueued(rank, 1_000, 99))
        for number, (start, end) in enumerate(
            every(10, MS, after_ns=100_000 + 400_000 * (rank // 2))
        ):
            kernels.append(
                Kernel(
                    start,
                    end,
                    ALL_REDUCE,
                    process=process(rank),
                    stream=20,
                    graph_node=graph_node_id(2, 1),
                    correlation=100 + number,
                    launch=ApiCall(
                        "cudaGraphLaunch_v10000",
                        start - 9_000,
                        start - 8_000,
                        main_thread(process(rank)),
                    ),
                )
            )  # fmt: skip
    document = audit_of(kernels=kernels, ranges=ranges)
    assert sums(document) == dict.fromkeys(range(4), (10, 0, 300_000, 10))


def test_only_kernels_of_nccl_have_its_communicators() -> None:
    kernels = rows(every(10, MS, after_ns=100_000), every(10, MS, after_ns=100_000), name=CUSTOM)
    ranges = [*domains(2), enqueued(0, 90_000, 7)]  # on one rank, for something else
    document = audit_of(kernels=kernels, ranges=ranges)
    kind = "comm.custom_ar vllm::cross_device_reduce_1stage"
    assert matches(document, kind) == {0: 10, 1: 10}


def test_kernels_without_a_launch_have_no_communicator() -> None:
    one = every(10, MS, after_ns=100_000)
    kernels = [
        Kernel(s, e, ALL_REDUCE, process=process(rank), stream=20, launch=None)
        for rank in (0, 1)
        for s, e in one
    ]
    ranges = [*domains(2), enqueued(0, 1_000, 7)]
    assert matches(audit_of(kernels=kernels, ranges=ranges)) == {0: 10, 1: 10}


def uneven(count: int, seed: int = 1) -> Entries:
    starts = np.cumsum(np.random.default_rng(seed).integers(200_000, 400_000, count)).tolist()
    return [(start, start + 30_000) for start in starts]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (slice(None), slice(3, None)),
        (slice(None), slice(None, -3)),
        (slice(None), slice(2, -3)),
        (slice(4, None), slice(None)),
        (slice(None, -1), slice(1, None)),  # as many on both, but not the same ones
        (slice(None), slice(100, None)),
    ],
)
def test_a_capture_may_be_cut(first: slice, second: slice) -> None:
    entries = uneven(150)
    document = audit_of(kernels=rows(entries[first], [(s + 10_000, e) for s, e in entries[second]]))
    both = len(range(150)[max(first.start or 0, second.start or 0) : min(
        first.indices(150)[1], second.indices(150)[1]
    )])  # fmt: skip
    assert sums(document) == {
        0: (both, both * 10_000, both * 20_000, 0),
        1: (both, 0, both * 20_000, both),
    }


@pytest.mark.parametrize("period_ns", [300_000, 40_000])
def test_a_capture_of_equal_distances_may_be_cut(period_ns: int) -> None:
    entries = every(10, period_ns)
    document = audit_of(kernels=rows(entries, entries[1:]))
    assert sums(document) == dict.fromkeys((0, 1), (9, 0, 9 * 30_000, 9))


# Late ranks: OA703

# 200 µs pass from where an all-reduce ends until the last rank enters the next one.
STAGE_NS = 200_000


def stages(
    late_ns: Sequence[int], transfer_ns: int = 10_000, stage_ns: int = STAGE_NS
) -> tuple[Entries, Entries]:
    """Give two ranks, of which the second comes late; the first all-reduce only lets them meet."""
    one, other = [(0, 10_000)], [(0, 10_000)]
    left = 10_000
    for lateness in late_ns:
        met = left + stage_ns
        left = met + transfer_ns
        one.append((met - lateness, left))
        other.append((met, left))
    return one, other


def test_the_late_rank_is_named() -> None:
    one, other = stages([50_000] * 9)
    document = audit_of(kernels=rows(one, other, one))
    (finding,) = late(document)
    where = finding["where"]
    assert (where["process"], where["rank"], where["device"]) == (process(1), 1, 0)
    assert (where["start_ns"], where["end_ns"]) == (160_000, other[-1][1])
    assert finding["evidence"] == {
        "collectives_entered_last": 9,
        "of_collectives": 10,
        "kinds": ["AllReduce"],
        "longest_wait_ns": 50_000,
        "waiting_ranks": [0, 2],
        "clock_residual_ns": 0,
    }
    assert (finding["cost_ns"], finding["severity"]) == (9 * 50_000, "error")
    assert finding["confidence"] == "proven"


def test_each_late_rank_is_named() -> None:
    one, other = stages([50_000] * 4)
    late_second = [*one[:3], *other[3:]]
    late_first = [*other[:3], *one[3:]]
    document = audit_of(kernels=rows(late_first, late_second))
    assert late_ranks(document) == [0, 1]
    assert [one["cost_ns"] for one in late(document)] == [100_000, 100_000]


@pytest.mark.parametrize(("spread_ns", "found"), [(20_000, True), (19_999, False)])
def test_late_by_20_us(spread_ns: int, found: bool) -> None:
    document = audit_of(kernels=rows(*stages([spread_ns] * 9)))
    assert ("OA703" in codes(document)) is found


@pytest.mark.parametrize(("transfer_ns", "found"), [(29_999, True), (30_000, False)])
def test_late_by_more_than_the_transfer(transfer_ns: int, found: bool) -> None:
    document = audit_of(kernels=rows(*stages([30_000] * 9, transfer_ns)))
    assert ("OA703" in codes(document)) is found


@pytest.mark.parametrize(("stage_ns", "found"), [(300_000, True), (300_010, False)])
def test_late_by_a_tenth_of_the_time_since_the_ranks_met(stage_ns: int, found: bool) -> None:
    document = audit_of(kernels=rows(*stages([30_000] * 9, stage_ns=stage_ns)))
    assert ("OA703" in codes(document)) is found


def test_the_share_of_lateness_can_be_set() -> None:
    kernels = rows(*stages([30_000] * 9, stage_ns=500_000))
    for share, found in ((0.06, True), (0.061, False)):
        policy = oa.Policy(thresholds={"OA703": {"lateness_share": share}})
        assert ("OA703" in codes(audit_of(kernels=kernels, policy=policy))) is found


@pytest.mark.parametrize(("spread_ns", "found"), [(24_001, True), (24_000, False)])
def test_late_by_more_than_clocks_can_tell(spread_ns: int, found: bool) -> None:
    # The second device's clock is 12 µs ahead, so its ends seem to come later by that.
    one, other = stages([spread_ns - 12_000] * 9)
    document = audit_of(kernels=rows(one, later(other, 12_000)))
    assert document["ranks"]["residual_ns"] == 12_000
    assert ("OA703" in codes(document)) is found


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_an_imbalance_of_a_twentieth_is_natural(ranks: int) -> None:
    # The last rank has 5 % more to do each time, and clocks are up to 7 µs apart.
    for stage_ns in (100_000, 200_000, 2 * MS, 20 * MS):
        one, other = stages([stage_ns // 20] * 9, stage_ns=stage_ns)
        ahead = [7_000 * rank // (ranks - 1) for rank in range(ranks)]
        kernels = rows(*[later(one, ns) for ns in ahead[:-1]], later(other, 7_000))
        assert "OA703" not in codes(audit_of(kernels=kernels))


def test_a_single_straggler_is_an_info() -> None:
    # Once late costs 60 µs of 2.2 ms; twice is no accident.
    late_ns = [0, 0, 60_000, 0, 0, 0, 0, 0, 0]
    (finding,) = late(audit_of(kernels=rows(*stages(late_ns))))
    assert (finding["severity"], finding["cost_ns"]) == ("info", 60_000)
    assert finding["evidence"]["collectives_entered_last"] == 1
    late_ns[5] = 60_000
    (finding,) = late(audit_of(kernels=rows(*stages(late_ns))))
    assert (finding["severity"], finding["cost_ns"]) == ("warning", 120_000)


@pytest.mark.parametrize(("late_ns", "severity"), [(190_000, "error"), (189_999, "info")])
def test_a_single_straggler_of_a_tenth_of_its_window(late_ns: int, severity: str) -> None:
    # The first all-reduce and nine stages, each with its own: 10 + 9 · 210 µs.
    kernels = rows(*stages([0, 0, 0, 0, late_ns, 0, 0, 0, 0]))
    (finding,) = late(audit_of(kernels=kernels))
    assert (finding["severity"], finding["cost_ns"]) == (severity, late_ns)


def test_work_beside_the_wait_lowers_its_cost() -> None:
    one, other = stages([50_000] * 9)
    beside = [
        Kernel(start, start + 20_000, "gemm", process=process(0), stream=7) for start, _ in one[1:]
    ]
    document = audit_of(kernels=[*rows(one, other), *beside])
    assert [finding["cost_ns"] for finding in late(document)] == [9 * 30_000]
    copies = [
        Copy(start + 10_000, start + 40_000, process=process(0), stream=8) for start, _ in one[1:]
    ]
    document = audit_of(kernels=[*rows(one, other), *beside], copies=copies)
    assert [finding["cost_ns"] for finding in late(document)] == [9 * 10_000]


def test_a_wait_that_work_hides_costs_nothing() -> None:
    one, other = stages([50_000] * 9)
    beside = [
        Kernel(start, start + 60_000, "gemm", process=process(0), stream=7) for start, _ in one[1:]
    ]
    assert "OA703" not in codes(audit_of(kernels=[*rows(one, other), *beside]))


def test_a_transfer_beside_the_wait_lowers_its_cost() -> None:
    one, other = stages([50_000] * 9)
    beside = [
        collective(0, start, start + 20_000, SEND_RECV, stream=30) for start, _ in one[1:]
    ]  # fmt: skip
    document = audit_of(kernels=[*rows(one, other), *beside])
    assert [finding["cost_ns"] for finding in late(document)] == [9 * 30_000]


def test_the_cost_is_that_of_the_rank_that_waited_longest() -> None:
    one, other = stages([50_000] * 9)
    between = [one[0], *((start + 25_000, end) for start, end in one[1:])]
    (finding,) = late(audit_of(kernels=rows(between, other, one)))
    assert finding["where"]["rank"] == 1
    assert finding["cost_ns"] == 9 * 50_000
    assert finding["evidence"]["waiting_ranks"] == [0, 2]


def test_times_are_by_the_clock_of_the_late_rank() -> None:
    one, other = stages([50_000, 55_000, 45_000, 60_000, 40_000, 50_000])
    document = audit_ranks(one, other, shifts=[0, 5 * SECOND])
    (finding,) = late(document)
    assert finding["where"]["rank"] == 1
    assert finding["where"]["start_ns"] >= 5 * SECOND
    assert finding["where"]["end_ns"] <= other[-1][1] + 5 * SECOND


def steps(rank: int, windows: Entries) -> list[Range]:
    thread = main_thread(process(rank))
    text = "iteration.step|tokens=5"
    return [
        nvtx_domain("overlapaudit", STEPS, process=process(rank)),
        *(
            Range(text, start, end, thread=thread, domain=STEPS, payload=number)
            for number, (start, end) in enumerate(windows, start=40)
        ),
    ]


def test_the_iterations_that_waited_are_listed() -> None:
    # Four iterations of five stages; in the third the second rank is late twice.
    late_ns = [0] * 20
    late_ns[11] = late_ns[13] = 50_000
    one, other = stages(late_ns)
    kernels = [
        Kernel(start, end, ALL_REDUCE, process=process(rank), stream=20, launch=ApiCall(
            "cudaLaunchKernel_v7000", start - 5_000, start - 4_000, main_thread(process(rank))
        ))
        for rank, entries in enumerate((one, other))
        for start, end in entries[1:]
    ]  # fmt: skip
    windows = [(one[5 * n][1], one[5 * n + 5][1]) for n in range(4)]
    document = audit_of(kernels=kernels, ranges=[*steps(0, windows), *steps(1, windows)])
    (finding,) = late(document)
    assert finding["where"]["windows"] == [{"kind": "iteration", "id": 42}]
    assert (finding["cost_ns"], finding["severity"]) == (100_000, "warning")


# Of eight ranks whose one kernel varies by 5 % the last is late by 14 % on average: by chance, and
# it is another one each time.
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_ranks_whose_kernels_vary_are_not_late(ranks: int, noise: float) -> None:
    for seed, (of_stage, transfer_ns) in enumerate(
        [
            ([8_000, 6_000, 15_000, 12_000], 8_000),  # decode
            ([300_000, 400_000, 200_000], 100_000),  # prefill
            ([MS], 80_000),
        ]
    ):
        entries = noisy(ranks, of_stage, transfer_ns, noise, seed)
        found = late(audit_of(kernels=rows(*entries)))
        assert [one["severity"] for one in found if one["severity"] != "info"] == []


def noisy(
    ranks: int, of_stage: Sequence[int], transfer_ns: int, noise: float, seed: int
) -> list[Entries]:
    """Give ranks that do the same, each kernel varying for itself; clocks are up to 7 µs apart.

    Times are recorded in steps of 32 ns.
    """
    vary = np.random.default_rng(seed)
    ahead = vary.uniform(0, 7_000, ranks)
    found: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    left = 0.0
    for _ in range(128):
        factors = np.exp(vary.normal(0, noise, (ranks, len(of_stage))))
        entry = left + (factors * of_stage).sum(axis=1)
        left = float(entry.max() + transfer_ns * np.exp(vary.normal(0, noise)))
        for rank in range(ranks):
            start, end = entry[rank] + ahead[rank], left + ahead[rank]
            found[rank].append((int(start) // 32 * 32, int(end) // 32 * 32))
    return [list(one) for one in found]


def test_the_second_stage_of_a_pipeline_waits_for_the_first() -> None:
    # It has nothing to do until the first micro-batch has come through: nobody is late.
    kernels = []
    for number in range(20):
        at = 2 * MS * number
        kernels += [
            Kernel(at, at + 900_000, "gemm", process=process(0)),
            collective(0, at + 901_000, at + 931_000, SEND_RECV),
            collective(1, at, at + 931_000, SEND_RECV),
            Kernel(at + 932_000, at + 1_850_000, "gemm", process=process(1)),
        ]
    assert "OA703" not in codes(audit_of(kernels=kernels))


# Waits of the host


def idle_after_a_wait(peer_enters_ns: int | None) -> int | None:
    """Give what a wait for a stream cost beside an all-reduce that its peer enters then."""

    def launch(start_ns: int, rank: int = 0) -> ApiCall:
        thread = main_thread(process(rank))
        return ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + 500, thread)

    kernels = [
        Kernel(10_000, 200_000, process=process(0), launch=launch(0)),
        Kernel(250_000, 300_000, process=process(0), launch=launch(240_000)),
        Kernel(
            150_000, 260_000, ALL_REDUCE, process=process(0), stream=20, launch=launch(1_000)
        ),
    ]  # fmt: skip
    if peer_enters_ns is not None:
        kernels.append(
            Kernel(
                peer_enters_ns,
                260_000,
                ALL_REDUCE,
                process=process(1),
                stream=20,
                launch=launch(1_000, 1),
            )
        )
    document = audit_of(
        kernels=kernels,
        syncs=[Sync(5_000, 206_000, "stream_sync", process=process(0))],
    )
    (found,) = [one for one in document["hidden_syncs"] if one["code"] == "OA502"]
    idle: int | None = found["gpu_idle_ns"]
    return idle


def test_an_all_reduce_that_spins_does_not_keep_the_device_busy() -> None:
    assert idle_after_a_wait(255_000) == 50_000


def test_an_all_reduce_that_transfers_keeps_the_device_busy() -> None:
    assert idle_after_a_wait(150_000) == 0
    assert idle_after_a_wait(200_000) == 0


def test_of_one_rank_nobody_knows_whether_it_spins() -> None:
    assert idle_after_a_wait(None) == 0
