"""Bring the clocks of several traces together, by the collectives that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import polars as pl

from overlapaudit.analysis.collectives import KEY
from overlapaudit.analysis.rank_clocks import NO_OFFSET, Offset, fitted, matched, same_moments
from overlapaudit.intervals import Times

# Ends of one collective lie closer together than this on clocks that are aligned.
SAME_END_NS = 50_000
# The ends of what the same ranks take part in lie closer together than this, mostly.
CLOSE_NS = 20_000
# So many collectives must agree before clocks are called aligned.
_FEWEST = 4
# Fits that are better than this are as good: it is what ends vary by.
_EXACT_NS = 1_000
_RAN_TOGETHER = 0.9
# A trace that shares nothing with the first is compared with so many others.
_MOST_REFERENCES = 16


def clocks(
    symmetric: pl.DataFrame, began: Sequence[int | None]
) -> tuple[tuple[Offset | None, ...], int | None]:
    """Align the clock of each trace with that of one: the first that most others share work with.

    Args:
        symmetric: collectives that end at one moment everywhere, with `trace` and `member`.
        began: when each trace began by the calendar; it serves where distances do not tell.

    Returns:
        Of each trace its clock minus the chosen one's (None: not comparable), and how far apart
        the ends of one collective lie at most, for nine of ten (None: nothing tells).
    """
    of_trace = {
        int(trace): rows
        for (trace,), rows in symmetric.partition_by(
            "trace", as_dict=True, maintain_order=True
        ).items()
    }
    best: dict[int, Offset] = {}
    for reference in sorted(of_trace):
        if reference not in best:
            reached = _reached(reference, of_trace, began)
            best = max(best, reached, key=len)
        if 2 * len(best) > len(of_trace):
            break
    residuals = [offset.residual_ns for offset in best.values() if offset is not NO_OFFSET]
    residuals += [residual for rows in of_trace.values() for residual in _inside_one(rows)]
    # With no collectives at all there is nothing to compare, and one trace needs no offset.
    offsets = best or {0: NO_OFFSET}
    return tuple(offsets.get(trace) for trace in range(len(began))), max(residuals, default=None)


def _reached(
    reference: int, of_trace: dict[int, pl.DataFrame], began: Sequence[int | None]
) -> dict[int, Offset]:
    """Give the offsets of all traces that share work with this one, directly or through others."""
    found = {reference: NO_OFFSET}
    for middle in _growing(found):
        for other in sorted(of_trace.keys() - found.keys()):
            fit = _fit(of_trace[middle], of_trace[other], _apart(began[middle], began[other]))
            if fit is not None:
                found[other] = fit if middle == reference else found[middle].then(fit)
    return found


def _growing(found: dict[int, Offset]) -> Iterator[int]:
    for number in range(_MOST_REFERENCES):
        if number >= len(found):
            return
        yield list(found)[number]


def _apart(here: int | None, there: int | None) -> int | None:
    """Give how much more the clock of the other shows: it began to count that much earlier."""
    return None if here is None or there is None else here - there


def _fit(here: pl.DataFrame, there: pl.DataFrame, about_ns: int | None) -> Offset | None:
    """Fit two traces by the kind of collectives that tells it best."""
    fits = []
    for mine, theirs in _same_key(here, there):
        a, b = matched(mine, theirs, about_ns)
        if len(a) >= _FEWEST:
            fits.append(fitted(mine[a], theirs[b]))
    good = [fit for fit in fits if fit.residual_ns <= SAME_END_NS]
    return min(
        good,
        key=lambda fit: max(fit.residual_ns, _EXACT_NS) / fit.collectives**0.5,
        default=None,
    )


def _same_key(here: pl.DataFrame, there: pl.DataFrame) -> Iterator[tuple[Times, Times]]:
    """Give the ends of all pairs of members that have collectives of one key."""
    others = there.partition_by(*KEY, as_dict=True, maintain_order=True)
    for key, rows in here.partition_by(*KEY, as_dict=True, maintain_order=True).items():
        if key not in others:
            continue
        for mine in rows.partition_by("member", maintain_order=True):
            for theirs in others[key].partition_by("member", maintain_order=True):
                yield _ends(mine), _ends(theirs)


def _ends(rows: pl.DataFrame) -> Times:
    ends: Times = rows["end_ns"].sort().to_numpy()
    return ends


def _inside_one(rows: pl.DataFrame) -> Iterator[int]:
    """Give how far apart the ends lie that members of one trace share."""
    for of_key in rows.partition_by(*KEY, maintain_order=True):
        members = of_key.partition_by("member", maintain_order=True)
        for first, other in combinations(members[:_MOST_REFERENCES], 2):
            residual = _residual(first, other)
            if residual is not None:
                yield residual


def _residual(first: pl.DataFrame, other: pl.DataFrame) -> int | None:
    mine = same_moments(first["end_ns"].to_numpy(), other["end_ns"].to_numpy(), SAME_END_NS)
    here, there = first.filter(pl.Series(mine >= 0)), other[mine[mine >= 0]]
    if 2 * here.height < min(first.height, other.height) or not here.height:
        return None
    starts = np.maximum(here["start_ns"].to_numpy(), there["start_ns"].to_numpy())
    ends = here["end_ns"].to_numpy(), there["end_ns"].to_numpy()
    # Nobody leaves before all have entered: else it was not the same.
    ran = np.mean(starts <= np.minimum(*ends) + CLOSE_NS)
    apart = np.abs(ends[0] - ends[1])
    if ran < _RAN_TOGETHER or np.median(apart) > CLOSE_NS:
        return None
    return int(np.quantile(apart, _RAN_TOGETHER))
