"""The interval algebra: exact cases by hand, and every operation against a grid of single ns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlapaudit import intervals
from overlapaudit.intervals import EMPTY, IntervalSet

LOW, HIGH = -25, 25
Pairs = list[tuple[int, int]]

times = st.integers(LOW, HIGH)
rows = st.lists(st.tuples(times, times), max_size=12)
bounds = st.tuples(times, times)


def arrays(pairs: Pairs) -> tuple[intervals.Times, intervals.Times]:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


def normal(pairs: Pairs) -> IntervalSet:
    return intervals.union(*arrays(pairs))


def grid(pairs: Pairs) -> set[int]:
    """The brute force: every ns that some interval covers."""
    return {ns for start, end in pairs for ns in range(start, end)}


def assert_is(result: IntervalSet, expected: set[int]) -> None:
    pairs = result.pairs()
    assert grid(pairs) == expected
    assert result.length_ns == len(expected)
    assert all(start < end for start, end in pairs)
    # Normal: sorted, and a gap of at least one ns between members.
    assert all(one[1] < other[0] for one, other in pairwise(pairs))
    assert result.start.dtype == result.end.dtype == np.int64


@given(rows)
def test_union(a: Pairs) -> None:
    assert_is(normal(a), grid(a))


@given(st.lists(rows, max_size=4))
def test_unite(several: list[Pairs]) -> None:
    expected = grid([pair for a in several for pair in a])
    assert_is(intervals.unite(normal(a) for a in several), expected)


@given(rows, rows)
def test_two_sets(a: Pairs, b: Pairs) -> None:
    one, other = normal(a), normal(b)
    assert_is(intervals.intersect(one, other), grid(a) & grid(b))
    assert_is(intervals.subtract(one, other), grid(a) - grid(b))


@given(st.lists(rows, max_size=4))
def test_time_by_combination(several: list[Pairs]) -> None:
    covered = [grid(a) for a in several]
    expected: dict[int, int] = {}
    for ns in range(LOW, HIGH):
        bits = sum(1 << k for k, one in enumerate(covered) if ns in one)
        if bits:
            expected[bits] = expected.get(bits, 0) + 1
    assert intervals.time_by_combination([normal(a) for a in several]) == expected


@given(rows, bounds)
def test_cut_to_a_window(a: Pairs, window: tuple[int, int]) -> None:
    inside = set(range(*window))
    assert_is(intervals.clip(normal(a), *window), grid(a) & inside)
    assert_is(intervals.complement(normal(a), *window), inside - grid(a))


@given(st.lists(st.tuples(times, times, st.integers(0, 3)), max_size=12), st.booleans())
def test_shared_between_groups(members: list[tuple[int, int, int]], far: bool) -> None:
    # Group numbers are ids, not indices; far apart times take the other path.
    scale = 1 << 55 if far else 1
    table = np.array(members, dtype=np.int64).reshape(-1, 3)
    start, end = table[:, 0] * scale, table[:, 1] * scale
    result = intervals.shared(start, end, table[:, 2] * 1_000_003 - 5)
    covered = [grid([(s, e) for s, e, g in members if g == group]) for group in range(4)]
    expected = {ns for ns in range(LOW, HIGH) if sum(ns in one for one in covered) >= 2}
    assert_is(IntervalSet(result.start // scale, result.end // scale), expected)
    assert result.length_ns == len(expected) * scale


@given(st.lists(st.tuples(times, times, st.integers(-2, 2)), max_size=12), st.booleans())
def test_length_by_group(members: list[tuple[int, int, int]], far: bool) -> None:
    scale = 1 << 55 if far else 1
    table = np.array(members, dtype=np.int64).reshape(-1, 3)
    numbers, lengths = intervals.length_by_group(
        table[:, 0] * scale, table[:, 1] * scale, table[:, 2]
    )
    covered = {group: grid([(s, e) for s, e, g in members if g == group]) for group in range(-2, 3)}
    expected = {group: len(one) * scale for group, one in covered.items() if one}
    assert dict(zip(numbers.tolist(), lengths.tolist(), strict=True)) == expected


def test_exact_times() -> None:
    a = normal([(1_000_000_007, 1_000_000_019), (1_000_000_019, 1_000_000_020), (5, 5)])
    assert a.pairs() == [(1_000_000_007, 1_000_000_020)]
    b = normal([(1_000_000_010, 2_000_000_000)])
    assert intervals.intersect(a, b).pairs() == [(1_000_000_010, 1_000_000_020)]
    assert intervals.subtract(b, a).pairs() == [(1_000_000_020, 2_000_000_000)]
    assert intervals.time_by_combination([a, b]) == {1: 3, 3: 10, 2: 999_999_980}


def test_one_streams_own_overlap_is_not_shared() -> None:
    # Programmatic dependent launch: two kernels of one stream at once.
    start, end = arrays([(0, 10), (5, 15), (12, 20)])
    assert intervals.shared(start, end, np.array([1, 1, 2])).pairs() == [(12, 15)]


def test_equality_and_emptiness() -> None:
    assert normal([]) == EMPTY
    assert normal([(0, 1)]) != EMPTY
    assert EMPTY != 0
    assert EMPTY.length_ns == 0
    assert intervals.unite([]) == EMPTY


@pytest.mark.parametrize("groups", [10_000, 100_000])
def test_many_groups_over_a_long_time(groups: int) -> None:
    start = np.arange(groups, dtype=np.int64) * (1 << 45)
    end = start + (1 << 45) + 1
    result = intervals.shared(start, end, np.arange(groups))
    assert result.length_ns == groups - 1
