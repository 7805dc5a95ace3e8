"""What varies from one instance to the next, as the simulation asks for it."""

from __future__ import annotations

from typing import Protocol

from overlapaudit_engine.hardware.hardware import Spread
from overlapaudit_engine.work import Key


class Draws(Protocol):
    """Equal keys give equal answers, in whatever order they are asked for."""

    def factor(self, key: Key) -> float:
        """Give how many times longer than planned an operation lasts."""

    def cost(self, key: Key, spread: Spread) -> int:
        """Give a cost in ns that is spread like this."""


class Planned:
    """Nothing varies: operations last as planned, costs are the medians."""

    def factor(self, key: Key) -> float:
        """Give 1."""
        return 1.0

    def cost(self, key: Key, spread: Spread) -> int:
        """Give the median."""
        return spread.p50
