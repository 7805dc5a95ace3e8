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
# One trace may hold collectives before or after the other's: so many are tried as the first.
_MOST_SHIFTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Offset:
    """The other clock minus this one: linear between `at_ns`, constant outside.

    Attributes:
        at_ns: int64 [knots], by this clock.
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
        found: Times = np.rint(np.interp(moments, self.at_ns, self.offset_ns)).astype(np.int64)
        return found


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
    parts = np.array_split(np.arange(len(here)), knots)
    at = np.array([np.median(here[part]) for part in parts]).astype(np.int64)
    offset = np.array([np.median(apart[part]) for part in parts]).astype(np.int64)
    found = Offset(at, offset, 0, len(here))
    residual = np.quantile(np.abs(apart - found.at(here)), _RESIDUAL_SHARE)
    return Offset(at, offset, int(np.ceil(residual)), len(here))


def matched(here: Times, there: Times) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give which of two rows of ends belong together, as indices into both.

    The n-th belongs to the n-th. Where one trace holds more, it may have begun earlier: then the
    shift counts at which the distance between the two changes least.
    """
    shorter = min(len(here), len(there))
    surplus = abs(len(here) - len(there))
    best, spread = 0, None
    for shift in range(min(surplus, _MOST_SHIFTS) + 1):
        a = here[shift : shift + shorter] if len(here) > len(there) else here[:shorter]
        b = there[shift : shift + shorter] if len(there) > len(here) else there[:shorter]
        apart = b - a
        varies = float(np.median(np.abs(apart - np.median(apart)))) if shorter else 0.0
        if spread is None or varies < spread:
            best, spread = shift, varies
    number = np.arange(shorter, dtype=np.int64)
    if len(here) > len(there):
        return number + best, number
    return number, number + best
