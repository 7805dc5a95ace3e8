"""How far the clocks of ranks are apart, told by the ends of what they did together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overlapaudit as oa
from overlapaudit.analysis.peer_waits import RankTimes, rank_times
from overlapaudit.analysis.rank_clocks import Offset, fitted, matched
from overlapaudit.intervals import Times
from tests.support import audit_file, audit_of, codes
from tests.tracebuilder import Kernel, global_pid, make_trace

MS = 1_000_000
SECOND = 1_000 * MS
PER_MILLION = 1_000_000

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
COMBINE = "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)"

Entries = Sequence[tuple[int, int]]


def times(*values: int) -> Times:
    return np.array(values, dtype=np.int64)


def uneven(count: int, seed: int = 1, about_ns: int = 300_000) -> Times:
    """Give moments whose distances vary by 15 %."""
    vary = about_ns * 15 // 100
    gaps = np.random.default_rng(seed).integers(about_ns - vary, about_ns + vary, count)
    moments: Times = np.cumsum(gaps).astype(np.int64)
    return moments


def lasting(starts: Times, ns: int = 30_000) -> list[tuple[int, int]]:
    return [(int(start), int(start) + ns) for start in starts]


def rank(number: int, entries: Entries, name: str = ALL_REDUCE, shift_ns: int = 0) -> list[Kernel]:
    process = global_pid(1000 + number)
    return [
        Kernel(start + shift_ns, end + shift_ns, name, process=process, stream=20)
        for start, end in entries
    ]


def written(folder: Path, ranks: Sequence[Sequence[Kernel]]) -> list[Path]:
    return [
        make_trace(folder / f"rank{number}.sqlite", kernels=kernels)
        for number, kernels in enumerate(ranks)
    ]


def audit_ranks(*ranks: Sequence[Kernel]) -> dict[str, Any]:
    """Audit ranks that were recorded in a file each."""
    with TemporaryDirectory() as folder:
        return audit_file(*written(Path(folder), ranks))


def times_of(folder: Path, *ranks: Sequence[Kernel]) -> RankTimes:
    traces = [oa.open_trace(path) for path in written(folder, ranks)]
    try:
        found = rank_times(traces)
        assert found is not None
        return found
    finally:
        for trace in traces:
            trace.close()


def lost(document: dict[str, Any]) -> list[int]:
    """Give the ranks whose clocks cannot be compared."""
    return sorted(
        one["where"]["rank"] for one in document["findings"] if one["code"] == "OA009"
    )  # fmt: skip


def matches(document: dict[str, Any]) -> dict[int, int]:
    return {one["rank"]: one["matched"] for one in document["ranks"]["collectives"]}


# One offset, or several


def test_a_constant_offset() -> None:
    here = uneven(100)
    found = fitted(here, here + 11_560 * MS)
    assert (found.offset_ns.tolist(), found.residual_ns) == ([11_560 * MS], 0)
    assert found.collectives == 100
    assert found.at(times(-SECOND, 0, 99 * SECOND)).tolist() == [11_560 * MS] * 3


@pytest.mark.parametrize(
    ("collectives", "span_ns", "knots"),
    [
        (32, 2 * SECOND, 2),
        (31, 2 * SECOND, 1),
        (32, 2 * SECOND - 1, 1),
        (1_000, 2 * SECOND, 2),
        (1_024, 64 * SECOND, 64),
        (2_000, 90 * SECOND, 64),
    ],
)
def test_a_knot_needs_a_second_and_sixteen_collectives(
    collectives: int, span_ns: int, knots: int
) -> None:
    here = np.linspace(0, span_ns, collectives).astype(np.int64)
    assert len(fitted(here, here).at_ns) == knots


def test_between_two_knots_the_offset_is_linear() -> None:
    found = Offset(times(0, 10 * SECOND), times(1_000, 3_000), 0, 32)
    assert found.at(times(0, 5 * SECOND, 10 * SECOND)).tolist() == [1_000, 2_000, 3_000]


def test_a_drift_is_followed_over_seconds() -> None:
    here = np.arange(0, 20 * SECOND, MS, dtype=np.int64)
    there = here + 7 * SECOND + here * 50 // PER_MILLION
    found = fitted(here, there)
    inside = (here >= found.at_ns[0]) & (here <= found.at_ns[-1])
    assert np.abs(there - here - found.at(here))[inside].max() <= 2
    assert found.residual_ns <= 2


@pytest.mark.parametrize("seconds", [3, 20, 120])
def test_a_drift_is_followed_to_both_ends(seconds: int) -> None:
    # What the residual says must hold for the first and the last collective as well.
    here = np.arange(0, seconds * SECOND, 2 * MS, dtype=np.int64)
    there = here + 7 * SECOND + here * 50 // PER_MILLION
    found = fitted(here, there)
    off = np.abs(there - here - found.at(here))
    assert max(off[0], off[-1]) <= found.residual_ns + 2


def test_a_drift_within_one_second_is_part_of_the_residual() -> None:
    here = np.arange(0, SECOND, MS, dtype=np.int64)
    there = here + here * 10 // PER_MILLION
    off = np.abs(there - here - fitted(here, there).at(here))
    assert (off <= fitted(here, there).residual_ns).mean() >= 0.9


@pytest.mark.parametrize(("outliers", "residual_ns"), [(2, 0), (3, 4_000)])
def test_one_of_ten_may_lie_outside_the_residual(outliers: int, residual_ns: int) -> None:
    here = uneven(21)
    apart = np.zeros(21, dtype=np.int64)
    apart[5 : 5 + outliers] = 4_000
    found = fitted(here, here + apart)
    assert (found.residual_ns, found.offset_ns.tolist()) == (residual_ns, [0])


def test_noise_is_in_the_residual_and_not_in_the_offset() -> None:
    here = uneven(1_001)
    noise = np.tile(times(-3_000, -1_000, 0, 1_000, 3_000), 201)[:1_001]
    found = fitted(here, here + SECOND + noise)
    assert (found.offset_ns.tolist(), found.residual_ns) == ([SECOND], 3_000)


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=200),
    st.integers(0, 2**32 - 1),
)
def test_nine_of_ten_lie_within_the_residual(apart: list[int], seed: int) -> None:
    here = uneven(len(apart), seed, about_ns=100 * MS)
    there = here + np.array(apart, dtype=np.int64)
    found = fitted(here, there)
    within = np.abs(there - here - found.at(here)) <= found.residual_ns
    assert within.sum() >= int(0.9 * len(apart))


# The knots' offsets are medians, and those of an even number of ends may lie on half a ns.
@given(st.integers(1, 100), st.integers(-(10**15), 10**15), st.integers(0, 2**32 - 1))
def test_a_shifted_clock_shifts_the_offset_alone(half: int, shift_ns: int, seed: int) -> None:
    here = uneven(2 * half - 1, seed)  # shorter than two seconds: one knot, of an odd number
    there = here + np.random.default_rng(seed).integers(-5_000, 5_000, len(here))
    plain, shifted = fitted(here, there), fitted(here, there + shift_ns)
    assert (shifted.offset_ns - plain.offset_ns).tolist() == [shift_ns] * len(plain.at_ns)
    assert shifted.residual_ns == plain.residual_ns
    assert shifted.at_ns.tolist() == plain.at_ns.tolist()


# Which belongs to which


def pairs(here: Times, there: Times) -> list[tuple[int, int]]:
    mine, theirs = matched(here, there)
    return list(zip(mine.tolist(), theirs.tolist(), strict=True))


def test_nothing_belongs_to_nothing() -> None:
    assert pairs(times(), times(1, 2)) == []
    assert pairs(times(1), times()) == []


def test_the_nth_belongs_to_the_nth() -> None:
    here = uneven(10)
    assert pairs(here, here + SECOND) == [(number, number) for number in range(10)]


@pytest.mark.parametrize("surplus", [1, 7, 64])
def test_a_surplus_at_the_end_belongs_to_nothing(surplus: int) -> None:
    here = uneven(150)
    kept = 150 - surplus
    expected = [(number, number) for number in range(kept)]
    assert pairs(here, here[:kept] + SECOND) == expected
    assert pairs(here[:kept] + SECOND, here) == expected


# A step of a model with 64 layers holds 128 all-reduces: a capture that began a step earlier.
@pytest.mark.parametrize("surplus", [1, 7, 64, 65, 128])
def test_a_surplus_at_the_begin_belongs_to_nothing(surplus: int) -> None:
    here = uneven(300)
    expected = [(number + surplus, number) for number in range(300 - surplus)]
    assert pairs(here, here[surplus:] + SECOND) == expected
    assert pairs(here[surplus:] + SECOND, here) == [(b, a) for a, b in expected]


@pytest.mark.parametrize("seed", range(5))
def test_a_surplus_is_found_under_drift(seed: int) -> None:
    # 50 ppm over four seconds make 200 µs, the distances of the collectives vary by 5 µs.
    gaps = 200_000 + np.random.default_rng(seed).integers(-5_000, 5_000, 20_000)
    here: Times = np.cumsum(gaps).astype(np.int64)
    there = (here + here * 50 // PER_MILLION)[3:]
    assert pairs(here, there)[0] == (3, 0)


@given(
    st.integers(20, 120),
    st.integers(0, 16),
    st.integers(0, 16),
    st.integers(-(10**13), 10**13),
    st.integers(0, 2**32 - 1),
)
def test_what_one_side_lacks_is_left_out(
    both: int, before: int, after: int, shift_ns: int, seed: int
) -> None:
    long = uneven(before + both + after, seed)
    short = long[before : before + both] + shift_ns
    expected = [(before + number, number) for number in range(both)]
    assert pairs(long, short) == expected
    assert pairs(short, long) == [(b, a) for a, b in expected]


# In whole traces


def test_one_file_has_one_clock() -> None:
    entries = lasting(uneven(10))
    for name in (ALL_REDUCE, BROADCAST, SEND_RECV):
        document = audit_of(kernels=[*rank(0, entries, name), *rank(1, entries, name)])
        assert document["ranks"]["clocks"] == "one_session"
        assert "OA009" not in codes(document)


@pytest.mark.parametrize("name", [ALL_REDUCE, ALL_GATHER, COMBINE])
def test_files_whose_clocks_are_seconds_apart(name: str) -> None:
    starts = uneven(40)
    early, late = lasting(starts, 130_000), lasting(starts + 100_000)
    document = audit_ranks(rank(0, early, name), rank(1, late, name, 11_560 * MS))
    assert document["ranks"]["clocks"] == "aligned"
    assert document["ranks"]["residual_ns"] == 0
    sums = [
        (one["rank"], one["matched"], one["wait_ns"], one["transfer_ns"], one["entered_last"])
        for one in document["ranks"]["collectives"]
    ]
    assert sums == [(0, 40, 40 * 100_000, 40 * 30_000, 0), (1, 40, 0, 40 * 30_000, 40)]
    assert "OA009" not in codes(document)


def test_the_offset_of_a_file_is_its_clock_less_the_first_ones(tmp_path: Path) -> None:
    entries = lasting(uneven(40))
    found = times_of(
        tmp_path, rank(0, entries), rank(1, entries, shift_ns=5 * SECOND), rank(2, entries)
    )
    offsets = [None if one is None else one.offset_ns.tolist() for one in found.offsets]
    assert offsets == [[0], [5 * SECOND], [0]]


def test_the_residual_is_stated() -> None:
    starts = uneven(40)
    ends = starts + 30_000
    apart = np.tile(times(-2_000, 0, 0, 2_000), 10)
    other = [(int(s), int(e)) for s, e in zip(starts, ends + apart, strict=True)]
    document = audit_ranks(rank(0, lasting(starts)), rank(1, other, shift_ns=SECOND))
    assert document["ranks"]["residual_ns"] == 2_000


@pytest.mark.parametrize(("shared", "aligned"), [(4, True), (3, False)])
def test_four_collectives_are_needed(shared: int, aligned: bool) -> None:
    entries = lasting(uneven(shared))
    document = audit_ranks(rank(0, entries), rank(1, entries, shift_ns=SECOND))
    assert document["ranks"]["clocks"] == ("aligned" if aligned else "not_comparable")
    assert lost(document) == ([] if aligned else [1])
    assert matches(document) == ({0: 4, 1: 4} if aligned else {0: 0, 1: 0})


@pytest.mark.parametrize("name", [BROADCAST, SEND_RECV])
def test_what_does_not_end_together_says_nothing_about_clocks(name: str) -> None:
    entries = lasting(uneven(40))
    document = audit_ranks(rank(0, entries, name), rank(1, entries, name, SECOND))
    assert document["ranks"]["clocks"] == "not_comparable"
    assert document["ranks"]["residual_ns"] is None
    assert lost(document) == [1]
    (finding,) = [one for one in document["findings"] if one["code"] == "OA009"]
    assert finding["severity"] == "warning"
    kind = "Broadcast" if name == BROADCAST else "SendRecv"
    assert finding["evidence"] == {"communication_kernels": 40, "kinds": [kind]}
    for one in document["ranks"]["collectives"]:
        assert (one["count"], one["matched"]) == (40, 0)
        assert one["wait_ns"] is one["transfer_ns"] is one["entered_last"] is None


@pytest.mark.parametrize(("apart_ns", "aligned"), [(50_000, True), (50_001, False)])
def test_ends_that_do_not_come_together(apart_ns: int, aligned: bool) -> None:
    # Of eleven two lie apart, so that nine of ten do not lie closer.
    starts = uneven(11)
    ends = starts + 200_000
    other = ends.copy()
    other[3] += apart_ns
    other[7] -= apart_ns
    first = [(int(s), int(e)) for s, e in zip(starts, ends, strict=True)]
    second = [(int(s), int(e)) for s, e in zip(starts, other, strict=True)]
    document = audit_ranks(rank(0, first), rank(1, second, shift_ns=SECOND))
    assert lost(document) == ([] if aligned else [1])
    if aligned:
        assert document["ranks"]["residual_ns"] == apart_ns


def test_work_that_is_not_the_same_aligns_nothing() -> None:
    document = audit_ranks(
        rank(0, lasting(uneven(60, seed=3, about_ns=3 * MS))),
        rank(1, lasting(uneven(60, seed=4, about_ns=3 * MS))),
    )
    assert lost(document) == [1]
    assert matches(document) == {0: 0, 1: 0}


def test_a_rank_that_is_lost_does_not_lose_the_others() -> None:
    entries = lasting(uneven(40))
    document = audit_ranks(
        rank(0, entries), rank(1, entries, SEND_RECV), rank(2, entries, shift_ns=SECOND)
    )
    assert document["ranks"]["clocks"] == "not_comparable"
    assert lost(document) == [1]
    assert matches(document) == {0: 40, 1: 0, 2: 40}


def test_the_first_rank_may_be_the_lost_one() -> None:
    entries = lasting(uneven(40))
    document = audit_ranks(
        rank(0, entries, SEND_RECV), rank(1, entries), rank(2, entries, shift_ns=SECOND)
    )
    assert lost(document) == [0]
    assert matches(document) == {0: 0, 1: 40, 2: 40}


def test_the_first_rank_may_have_nothing_in_common_with_the_others() -> None:
    entries = lasting(uneven(40))
    document = audit_ranks(
        rank(0, lasting(uneven(5, seed=9, about_ns=3 * MS))),
        rank(1, entries),
        rank(2, entries, shift_ns=SECOND),
    )
    assert lost(document) == [0]
    assert matches(document) == {0: 0, 1: 40, 2: 40}


def test_a_rank_that_does_not_communicate_is_not_lost() -> None:
    entries = lasting(uneven(40))
    document = audit_ranks(rank(0, entries), rank(1, entries, "gemm"), rank(2, entries))
    assert document["ranks"]["clocks"] == "aligned"
    assert lost(document) == []


def test_ranks_without_any_communication_are_not_lost() -> None:
    entries = lasting(uneven(40))
    assert lost(audit_ranks(rank(0, entries, "gemm"), rank(1, entries, "gemm"))) == []


@pytest.mark.parametrize("surplus", [3, 100])
def test_captures_that_began_at_different_steps_are_aligned(surplus: int) -> None:
    starts = uneven(250)
    document = audit_ranks(
        rank(0, lasting(starts)), rank(1, lasting(starts[surplus:]), shift_ns=-SECOND)
    )
    assert document["ranks"]["clocks"] == "aligned"
    assert matches(document) == {0: 250 - surplus, 1: 250 - surplus}


def test_the_calendar_tells_where_equal_distances_do_not(tmp_path: Path) -> None:
    # The second session began two seconds after the first, in which it also missed a collective.
    starts = 3 * SECOND + np.arange(40, dtype=np.int64) * 300_000
    first = make_trace(tmp_path / "0.sqlite", kernels=rank(0, lasting(starts)), utc_start_ns=10**18)
    second = make_trace(
        tmp_path / "1.sqlite",
        kernels=rank(1, lasting(starts[1:] - 2 * SECOND)),
        utc_start_ns=10**18 + 2 * SECOND,
    )
    traces = [oa.open_trace(first), oa.open_trace(second)]
    found = rank_times(traces)
    for trace in traces:
        trace.close()
    assert found is not None
    offset = found.offsets[1]
    assert offset is not None
    assert offset.offset_ns.tolist() == [-2 * SECOND]


def test_the_closest_ends_tell_the_offset(tmp_path: Path) -> None:
    # Each file has all-reduces among its own devices, more than all-gathers with the other file.
    vary = np.random.default_rng(2).integers(0, 20_000, (2, 40))
    ranks = []
    for number in (0, 1):
        moments = np.arange(40, dtype=np.int64) * MS
        own = moments + vary[number] + 25_000 * number
        more = moments + 400_000 + vary[1 - number] + 25_000 * number
        alone = lasting(np.sort(np.concatenate([own, more])))
        shared = lasting(moments + 900_000)
        shift_ns = number * SECOND
        ranks.append(
            [
                *rank(number, alone, shift_ns=shift_ns),
                *rank(number, shared, ALL_GATHER, shift_ns),
            ]
        )
    offset = times_of(tmp_path, *ranks).offsets[1]
    assert offset is not None
    assert (offset.offset_ns.tolist(), offset.residual_ns) == ([SECOND], 0)


def test_clocks_that_drift_make_nobody_late() -> None:
    # Pairs of all-reduces 100 µs apart, for 25 s, on clocks that drift by 50 ppm.
    starts = np.arange(500, dtype=np.int64)[:, None] * 50 * MS + times(0, 100_000)
    here = starts.ravel()
    there = here + here * 50 // PER_MILLION
    document = audit_ranks(rank(0, lasting(here, 10_000)), rank(1, lasting(there, 10_000)))
    assert document["ranks"]["clocks"] == "aligned"
    assert "OA703" not in codes(document)


def told(document: dict[str, Any]) -> tuple[Any, ...]:
    """Give what an audit says of ranks, without when by which clock."""
    said = [
        {key: one[key] for key in ("code", "severity", "cost_ns", "evidence")}
        | {"rank": one["where"]["rank"]}
        for one in document["findings"]
    ]
    return document["ranks"], said


@settings(max_examples=10)
@given(
    st.lists(st.integers(0, 120_000), min_size=24, max_size=24),
    st.integers(0, 2),
    st.integers(0, 10**14),
    st.integers(0, 2**32 - 1),
)
def test_what_a_clock_counts_from_does_not_matter(
    late_ns: list[int], shifted: int, shift_ns: int, seed: int
) -> None:
    starts = uneven(8, seed)
    entries = [
        [
            (int(start) + late, int(start) + 150_000)
            for start, late in zip(starts, late_ns[8 * number : 8 * number + 8], strict=True)
        ]
        for number in range(3)
    ]
    plain = audit_ranks(*(rank(number, one) for number, one in enumerate(entries)))
    moved = audit_ranks(
        *(
            rank(number, one, shift_ns=shift_ns if number == shifted else 0)
            for number, one in enumerate(entries)
        )
    )
    assert told(moved) == told(plain)
    together = audit_of(
        kernels=[k for number, one in enumerate(entries) for k in rank(number, one)]
    )
    assert together["ranks"]["collectives"] == plain["ranks"]["collectives"]
