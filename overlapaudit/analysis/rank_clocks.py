"""How far the clocks of two traces are apart, told by the ends of what both took part in.

A collective in which every rank needs something from every other ends at one moment on all of
them. Others (broadcast, reduce, send and receive) do not, so they say nothing about clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from overlapaudit.intervals import Times

# A fit in time has a knot for so many collectives at most, and no more than one a second: clocks
# drift slowly, what varies faster is no clock.
_FEWEST_A_KNOT = 16
_SHORTEST_KNOT_NS = 1_000_000_000
_MOST_KNOTS = 64
# What of the collectives has to lie within the residual.
_RESIDUAL_SHARE = 0.9
# Either trace may have begun earlier: so many collectives are tried as the first, on either side.
# They are compared by so many from the middle, the best of them by all.
_MOST_SHIFTS = 4_096
_SAMPLE = 512
_BEST = 16
# Fewer that both have tell nothing.
_FEWEST_SHARED = 4
# Distances that differ by more differ, by whatever.
_DIFFERENT_NS = 1_000_000
# Shifts that fit as well as the best: only the calendar can tell them apart.
_AS_GOOD, _AS_GOOD_NS = 1.25, 100
# So well the calendars of hosts agree, at least.
_CALENDAR_NS = 50_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Offset:
    """The other clock minus this one: linear between `at_ns`, and beyond them as at their side.

    Attributes:
        at_ns: int64 [knots], by this clock, ascending.
        offset_ns: int64 [knots].
        residual_ns: nine of ten collectives end closer together than this by the fit.
        collectives: how many it stands on.
    """

    at_ns: Times
    offset_ns: Times
    residual_ns: int
    collectives: int

    def at(self, moments: Times) -> Times:
        """Give the offset at moments of this clock."""
        if len(self.at_ns) == 1:
            return np.full(len(moments), self.offset_ns[0], dtype=np.int64)
        piece = np.searchsorted(self.at_ns[1:-1], moments, "right")
        since = moments - self.at_ns[piece]
        slope = np.diff(self.offset_ns) / np.diff(self.at_ns)
        found: Times = self.offset_ns[piece] + np.rint(slope[piece] * since).astype(np.int64)
        return found

    def then(self, other: Offset) -> Offset:
        """Give the clock that is `other` apart from the other one, minus this clock."""
        at = np.unique(np.concatenate([self.at_ns, other.at_ns - self.at(other.at_ns)]))
        apart = self.at(at)
        return Offset(
            at,
            apart + other.at(at + apart),
            self.residual_ns + other.residual_ns,
            min(self.collectives, other.collectives),
        )


NO_OFFSET = Offset(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), 0, 0)


def fitted(here: Times, there: Times) -> Offset:
    """Fit the offset between the ends of the same collectives on two clocks.

    Args:
        here: int64 [n], n > 0, ends by this clock, ascending.
        there: int64 [n], by the other.
    """
    apart = there - here
    span = int(here[-1] - here[0])
    knots = max(1, min(len(here) // _FEWEST_A_KNOT, span // _SHORTEST_KNOT_NS, _MOST_KNOTS))
    at: list[int] = []
    offset: list[int] = []
    for part in np.array_split(np.arange(len(here)), knots):
        moment = int(np.median(here[part]))
        # Between knots that lie close together, what varies would pass for a drift.
        if not at or moment - at[-1] >= _SHORTEST_KNOT_NS // 2:
            at.append(moment)
            offset.append(int(np.median(apart[part])))
    found = Offset(np.array(at), np.array(offset), 0, len(here))
    residual = np.quantile(np.abs(apart - found.at(here)), _RESIDUAL_SHARE)
    return Offset(found.at_ns, found.offset_ns, int(np.ceil(residual)), len(here))


def matched(
    here: Times, there: Times, about_ns: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give which of two rows of ends on different clocks belong together, as indices into both.

    Both are the ends of the same collectives, but either may have begun earlier or ended later. The
    distances between ends tell which is the first that both have, whatever the clocks; where
    several fit as well, the one closest to `about_ns`, else the one that leaves out the fewest.

    Args:
        here: int64 [n], ascending.
        there: int64 [m], ascending.
        about_ns: about how much more the clock of `there` shows; None where nothing tells.
    """
    shorter = min(len(here), len(there))
    shared = max(min(_FEWEST_SHARED, shorter), (shorter + 1) // 2)
    lowest, highest = shared - len(there), len(here) - shared
    if shorter < 2 or lowest == highest:
        shift = 0
    else:
        candidates = np.arange(max(lowest, -_MOST_SHIFTS), min(highest, _MOST_SHIFTS) + 1)
        shift = _shift(here, there, candidates, about_ns)
    count = max(0, min(len(here) - max(shift, 0), len(there) - max(-shift, 0)))
    number = np.arange(count, dtype=np.int64)
    return number + max(shift, 0), number + max(-shift, 0)


def _shift(here: Times, there: Times, shifts: Times, about_ns: int | None) -> int:
    """Give by how much more the index into `here` is."""
    gaps, others = np.diff(here), np.diff(there)
    if len(shifts) > _BEST:
        rough = _rough(gaps, others, shifts)
        best = np.lexsort((np.abs(shifts), rough))[:_BEST]
        if about_ns is not None:
            middle = len(there) // 2
            by_calendar = int(np.searchsorted(here, there[middle] - about_ns)) - middle
            best = np.append(best, np.lexsort((np.abs(shifts - by_calendar), rough))[:_BEST])
        shifts = np.unique(shifts[best])
    unlike: list[float] = []
    left_out: list[int] = []
    off: list[float] = []
    for shift in shifts.tolist():
        first, other = max(shift, 0), max(-shift, 0)
        count = min(len(gaps) - first, len(others) - other)
        unlike.append(_unlike(gaps[first : first + count] - others[other : other + count]))
        left_out.append(-count)
        apart = np.median(there[other : other + count + 1] - here[first : first + count + 1])
        off.append(0.0 if about_ns is None else abs(float(apart) - about_ns))
    fits = np.array(unlike) <= min(unlike) * _AS_GOOD + _AS_GOOD_NS
    if np.array(off)[fits].min() > _CALENDAR_NS:
        off = [0.0] * len(off)  # no calendar is that far off: it tells nothing
    chosen = np.lexsort((np.abs(shifts), np.array(left_out), np.array(off), ~fits))[0]
    return int(shifts[chosen])


def _rough(gaps: Times, others: Times, shifts: Times) -> npt.NDArray[np.float64]:
    """Compare a sample of the distances at each shift."""
    reaches = np.minimum(len(gaps), len(others) + shifts) - np.maximum(shifts, 0)
    middle = np.maximum(shifts, 0) + reaches // 2
    half = np.minimum(reaches, _SAMPLE) // 2
    found = np.empty(len(shifts))
    for number, (shift, centre, width) in enumerate(
        zip(shifts.tolist(), middle.tolist(), half.tolist(), strict=True)
    ):
        start, end = centre - width, centre + max(width, 1)
        found[number] = _unlike(gaps[start:end] - others[start - shift : end - shift])
    return found


def _unlike(apart: Times) -> float:
    return float(np.minimum(np.abs(apart), _DIFFERENT_NS).mean()) if len(apart) else 0.0


def same_moments(here: Times, there: Times, within_ns: int | None = None) -> Times:
    """Give for each end the one on the same clock that belongs to it.

    Two belong together that are each other's nearest.

    Args:
        here: int64 [n], ascending.
        there: int64 [m], ascending.
        within_ns: so far apart they may lie; None: any distance.

    Returns:
        int64 [n], indices into `there`, -1 where none belongs to it.
    """
    if not len(here) or not len(there):
        return np.full(len(here), -1, dtype=np.int64)
    nearest, back = _nearest(here, there), _nearest(there, here)
    belongs = back[nearest] == np.arange(len(here))
    if within_ns is not None:
        belongs &= np.abs(there[nearest] - here) <= within_ns
    return np.where(belongs, nearest, -1)


def _nearest(here: Times, there: Times) -> Times:
    after = np.clip(np.searchsorted(there, here), 1, max(len(there) - 1, 1))
    if len(there) == 1:
        return np.zeros(len(here), dtype=np.int64)
    before = after - 1
    found: Times = np.where(there[after] - here < here - there[before], after, before)
    return found.astype(np.int64)
