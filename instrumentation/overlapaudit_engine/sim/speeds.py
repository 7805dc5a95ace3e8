"""How fast operations go that share resources: max-min fair shares of each resource.

Every operation has a natural speed, 1, at which it uses so many bytes a ns of each resource. Where
a resource is asked for more than it has, no operation gets less than an equal share of it unless
it wants less. With several resources the most slowed operation is settled first, and what it leaves
is for the others. (Bertsekas and Gallager, Data Networks, 6.5.2.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

R = TypeVar("R", bound=Hashable)


def fair_speeds(
    uses: Sequence[Mapping[R, float]], limits: Sequence[float], capacities: Mapping[R, float]
) -> list[float]:
    """Give the speed of each operation, at most its limit.

    Args:
        uses: what each uses at speed 1, in bytes a ns by resource.
        limits: the highest speed of each, at most 1.
        capacities: bytes a ns of each resource.
    """
    speeds = list(limits)
    left = dict(capacities)
    open_ones = [number for number in range(len(uses)) if uses[number]]
    while open_ones:
        wanted = {number: _wanted(number, open_ones, uses, limits, left) for number in open_ones}
        most_slowed = min(open_ones, key=lambda number: (wanted[number] / limits[number], number))
        if wanted[most_slowed] >= limits[most_slowed]:
            break
        speeds[most_slowed] = wanted[most_slowed]
        open_ones.remove(most_slowed)
        for resource, amount in uses[most_slowed].items():
            left[resource] -= amount * wanted[most_slowed]
    return speeds


def _wanted(
    number: int,
    open_ones: Sequence[int],
    uses: Sequence[Mapping[R, float]],
    limits: Sequence[float],
    left: Mapping[R, float],
) -> float:
    """Give the speed that the scarcest of its resources allows an operation."""
    speed = limits[number]
    for resource, amount in uses[number].items():
        if amount <= 0:
            continue
        asked = sorted(
            uses[other].get(resource, 0.0) * limits[other]
            for other in open_ones
            if uses[other].get(resource, 0.0) > 0
        )
        share = _level(asked, max(left[resource], 0.0))
        if amount * speed > share:
            speed = share / amount
    return speed


def _level(asked: Sequence[float], capacity: float) -> float:
    """Give the most that one may take, such that all together take no more than there is."""
    for taken, one in enumerate(asked):
        equal = capacity / (len(asked) - taken)
        if one > equal:
            return equal
        capacity -= one
    return asked[-1]
