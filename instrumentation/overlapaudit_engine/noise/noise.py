"""Noise by key: twins of a run share it, and it is the same on every machine."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import resources
from itertools import pairwise

from overlapaudit_engine.hardware.hardware import Spread
from overlapaudit_engine.noise.make_tables import UNIT
from overlapaudit_engine.work import Key

PERCENTS = (0, 2, 5, 15)

# One operation in so many is a straggler: it lasts 2 to 10 times as long.
STRAGGLER_ONE_IN = 10_000
# The device's clock wanders by up to this part of the noise, over so many iterations.
_WANDER_SHARE = 0.25
_WANDER_OVER = 32

_PARTS = 1 << 32


@cache
def _tables() -> dict[str, list[int]]:
    file = resources.files("overlapaudit_engine.noise") / "data" / "factors.json"
    tables: dict[str, list[int]] = json.loads(file.read_text(encoding="utf-8"))
    return tables


class Noise:
    """What varies, at a level of 0, 2, 5 or 15 per cent. At 0 nothing does."""

    def __init__(self, seed: int, percent: int = 2) -> None:
        """Take the seed of a run.

        Raises:
            ValueError: there is no such level.
        """
        if percent not in PERCENTS:
            raise ValueError(f"noise of {percent} per cent: {', '.join(map(str, PERCENTS))}")
        self.seed = seed
        self.percent = percent
        self._factors = _tables()[str(percent)] if percent else []

    def factor(self, key: Key) -> float:
        """Give how many times longer than planned an operation lasts."""
        if not self.percent:
            return 1.0
        first, second = self._draw(key, "factor")
        lasts = self._factors[first % len(self._factors)] / UNIT
        return lasts * self.clock(key.rank, key.iteration) * _straggling(second)

    def instance(self, key: Key) -> float:
        """Give the part of `factor` that is of this instance alone: log-normal, of mean 1."""
        if not self.percent:
            return 1.0
        return self._factors[self._draw(key, "factor")[0] % len(self._factors)] / UNIT

    def clock(self, rank: int, iteration: int) -> float:
        """Give the part that wanders slowly from iteration to iteration, the same for a device."""
        if not self.percent:
            return 1.0
        place, beyond = divmod(iteration, _WANDER_OVER)
        one, other = (self._uniform(rank, place + step) for step in (0, 1))
        part = beyond / _WANDER_OVER
        smooth = part * part * (3 - 2 * part)
        wander = one + (other - one) * smooth
        return 1 + self.percent / 100 * _WANDER_SHARE * (2 * wander - 1)

    def straggles(self, key: Key) -> bool:
        """Whether an operation is one of the rare ones that take many times as long."""
        return bool(self.percent) and _straggling(self._draw(key, "factor")[1]) > 1

    def cost(self, key: Key, spread: Spread) -> int:
        """Give a cost in ns whose percentiles are those of the spread; at level 0 the median."""
        if not self.percent:
            return spread.p50
        return _at(self._draw(key, "cost")[0] / _PARTS, spread)

    def _draw(self, key: Key, what: str) -> tuple[int, int]:
        """Give two numbers of 32 bits that depend on the key alone."""
        text = f"{self.seed}|{key.rank}|{key.iteration}|{key.site}|{key.number}|{what}"
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")

    def _uniform(self, rank: int, place: int) -> float:
        return self._draw(Key(rank, place, "clock"), "clock")[0] / _PARTS


def _straggling(draw: int) -> float:
    """Give 2 to 10 for one draw in many, else 1."""
    if draw % STRAGGLER_ONE_IN:
        return 1.0
    return 2 + 8 * (draw // STRAGGLER_ONE_IN) / (_PARTS // STRAGGLER_ONE_IN)


def _at(part: float, spread: Spread) -> int:
    """Give the value below which this part of all lies, straight between percentiles."""
    below = spread.p10 - (spread.p50 - spread.p10) * 0.25
    points = (
        (0.0, max(below, spread.p10 * 0.5)),
        (0.1, float(spread.p10)),
        (0.5, float(spread.p50)),
        (0.9, float(spread.p90)),
        (0.99, float(spread.p99)),
        (1.0, spread.p99 * 2.0),
    )
    for (from_part, low), (to_part, high) in pairwise(points):
        if part <= to_part:
            return int(low + (high - low) * (part - from_part) / (to_part - from_part))
    return spread.p99
