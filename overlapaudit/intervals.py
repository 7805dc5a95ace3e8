"""The only interval algebra: sets of half-open intervals [start, end) of integer ns.

A set is normal: sorted, without empty, overlapping or touching members. Everything here takes
arrays and gives arrays; nothing loops over intervals in Python. Sums are of normal sets, so no
ns is ever counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class IntervalSet:
    """A normal set: `start` and `end`, int64 [n], ns."""

    start: Times
    end: Times

    @property
    def length_ns(self) -> int:
        """Give the time that the set covers."""
        return int((self.end - self.start).sum())

    def __len__(self) -> int:
        return len(self.start)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return np.array_equal(self.start, other.start) and np.array_equal(self.end, other.end)

    def pairs(self) -> list[tuple[int, int]]:
        """Give the intervals as pairs."""
        return list(zip(self.start.tolist(), self.end.tolist(), strict=True))


EMPTY = IntervalSet(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def union(start: Times, end: Times) -> IntervalSet:
    """Unite intervals in any order; those with end ≤ start hold no time and drop out."""
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if len(start) == 0:
        return EMPTY
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")  # timsort: rows mostly come in order
        start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    begins = np.empty(len(start), dtype=np.bool_)
    begins[0] = True
    np.greater(start[1:], reached[:-1], out=begins[1:])
    ends = np.roll(begins, -1)  # an interval ends where the next one begins
    return IntervalSet(start[begins], reached[ends])


def unite(sets: Iterable[IntervalSet]) -> IntervalSet:
    """Unite sets."""
    members = [one for one in sets if len(one)]
    if len(members) < 2:
        return members[0] if members else EMPTY
    return union(
        np.concatenate([one.start for one in members]), np.concatenate([one.end for one in members])
    )


def intersect(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """Give the time that is in both sets."""
    return _where_at_least(np.concatenate([a.start, b.start]), np.concatenate([a.end, b.end]), 2)


def subtract(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """Give the time that is in `a` and not in `b`."""
    if not len(a):
        return EMPTY
    return intersect(a, complement(b, int(a.start[0]), int(a.end[-1])))


def complement(a: IntervalSet, start_ns: int, end_ns: int) -> IntervalSet:
    """Give the time of [start_ns, end_ns) that is not in `a`."""
    if end_ns <= start_ns:
        return EMPTY
    inside = clip(a, start_ns, end_ns)
    starts = np.concatenate([np.array([start_ns], dtype=np.int64), inside.end])
    ends = np.concatenate([inside.start, np.array([end_ns], dtype=np.int64)])
    keep = ends > starts
    return IntervalSet(starts[keep], ends[keep])


def clip(a: IntervalSet, start_ns: int, end_ns: int) -> IntervalSet:
    """Cut the set to [start_ns, end_ns); what crosses an edge is cut, not dropped."""
    first = int(np.searchsorted(a.end, start_ns, side="right"))
    last = int(np.searchsorted(a.start, end_ns, side="left"))
    if first >= last or end_ns <= start_ns:
        return EMPTY
    return IntervalSet(
        np.maximum(a.start[first:last], start_ns), np.minimum(a.end[first:last], end_ns)
    )


def time_by_combination(sets: Sequence[IntervalSet]) -> dict[int, int]:
    """Give the time at which exactly some of the sets are covered, for each combination met.

    One sweep answers every question of the kind "in a and b", "in a and no other". A combination
    is a number with bit k set for `sets[k]`; times (ns) add up to the length of the union.

    Args:
        sets: at most 60.
    """
    if not sets:
        return {}
    edges = np.concatenate([ends for one in sets for ends in (one.start, one.end)])
    # Within a normal set nothing nests, so the bits of what is open can be added and taken away.
    steps = np.repeat(
        np.array([step for k in range(len(sets)) for step in (1 << k, -(1 << k))], dtype=np.int64),
        np.repeat([len(one) for one in sets], 2),
    )
    order = np.argsort(edges, kind="stable")
    edges, steps = edges[order], steps[order]
    lasts, opened = np.diff(edges), np.cumsum(steps)[:-1]
    passes = (lasts > 0) & (opened != 0)
    lasts, opened = lasts[passes], opened[passes]
    return {int(one): int(lasts[opened == one].sum()) for one in np.unique(opened)}


def shared(start: Times, end: Times, group: npt.NDArray[np.int64]) -> IntervalSet:
    """Give the time in which two or more groups have an interval.

    A group's own intervals are united first: they may overlap each other (programmatic dependent
    launch on one stream), which is not the overlap of two groups.

    Args:
        start: int64 [n].
        end: int64 [n].
        group: int64 [n], any numbers.
    """
    keep = end > start
    start, end, group = start[keep], end[keep], group[keep]
    if len(start) == 0 or (group == group[0]).all():
        return EMPTY
    _, code = np.unique(group, return_inverse=True)
    starts, ends, _ = _unite_by_group(start, end, code.astype(np.int64))
    return _where_at_least(starts, ends, 2)


def length_by_group(
    start: Times, end: Times, group: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], Times]:
    """Give the time that each group's intervals cover: (group numbers, ns), numbers ascending.

    Args:
        start: int64 [n].
        end: int64 [n].
        group: int64 [n], any numbers; those without time drop out.
    """
    keep = end > start
    start, end, group = start[keep], end[keep], group[keep]
    if len(start) == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    numbers, code = np.unique(group, return_inverse=True)
    start, end, code = _unite_by_group(start, end, code.astype(np.int64))
    first = np.flatnonzero(np.diff(code, prepend=-1))
    return numbers, np.add.reduceat(end - start, first)


def length_within(a: IntervalSet, start: Times, end: Times) -> Times:
    """Give how much of the set lies in each window [start, end); windows may overlap.

    Args:
        a: the set.
        start: int64 [windows].
        end: int64 [windows].
    """
    return _length_before(a, np.maximum(start, end)) - _length_before(a, start)


def _length_before(a: IntervalSet, at: Times) -> Times:
    """Give how much of the set lies before each moment."""
    if not len(a):
        return np.zeros(len(at), dtype=np.int64)
    whole = np.cumsum(a.end - a.start)
    last = np.searchsorted(a.start, at, "left") - 1
    beyond = np.maximum(a.end[np.maximum(last, 0)] - at, 0)
    return np.where(last >= 0, whole[np.maximum(last, 0)] - beyond, 0)


def _unite_by_group(start: Times, end: Times, code: Times) -> tuple[Times, Times, Times]:
    """Unite each group's intervals apart from the others', all in one pass.

    Args:
        start: int64 [n], n > 0.
        end: int64 [n], each beyond its start.
        code: int64 [n], groups numbered from 0.

    Returns:
        Starts, ends and groups, in the order of (group, start).
    """
    low, high = int(start.min()), int(end.max())
    stride = high - low + 1
    if (int(code.max()) + 1) * stride > _LARGEST:
        # Too long a time for so many groups: the ranks of the times take their place.
        times = np.unique(np.concatenate([start, end]))
        ranks = np.searchsorted(times, start), np.searchsorted(times, end)
        first, last, code = _unite_by_group(*ranks, code)
        return times[first], times[last], code
    # Each group moves into a stretch of its own, one ns apart from the next, so that one union
    # does for all.
    shift = code * stride - low
    apart = union(start + shift, end + shift)
    code = apart.start // stride
    back = code * stride - low
    return apart.start - back, apart.end - back, code


def _where_at_least(starts: Times, ends: Times, depth: int) -> IntervalSet:
    """Give the time at which `depth` or more of the intervals are open."""
    edges = np.concatenate([starts, ends])
    # Timsort: the edges come as a few sorted runs, which it merges in linear time. The order of
    # equal edges does not matter, since no time passes between them.
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    open_after = np.cumsum(np.where(order < len(starts), 1, -1))
    deep = open_after[:-1] >= depth
    return union(edges[:-1][deep], edges[1:][deep])
