"""Make the tables of noise again: `python -m overlapaudit_engine.noise.make_tables FILE`.

Logarithms and exponentials of the machine's own library differ in their last digits from one
machine to the next. Here they are worked out in decimals, once, and stored as whole numbers.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal, localcontext
from pathlib import Path
from statistics import NormalDist

ENTRIES = 4096
PERCENTS = (2, 5, 15)
UNIT = 1_000_000_000
_DIGITS = 40
_PI = Decimal("3.141592653589793238462643383279502884197169399375")


def quantiles() -> list[Decimal]:
    """Give the quantiles of the standard normal distribution at the middle of each entry."""
    with localcontext() as context:
        context.prec = _DIGITS
        upper = [
            _quantile(Decimal(2 * entry + 1) / (2 * ENTRIES))
            for entry in range(ENTRIES // 2, ENTRIES)
        ]
        return [-one for one in reversed(upper)] + upper


def factors(percent: int, normal: list[Decimal]) -> list[int]:
    """Give log-normal factors of mean 1 in parts of `UNIT`: exp(s z - s² / 2), scaled to it."""
    with localcontext() as context:
        context.prec = _DIGITS
        spread = Decimal(percent) / 100
        exact = [(spread * one).exp() for one in normal]
        mean = sum(exact, Decimal(0)) / len(exact)
        return [int((one / mean * UNIT).to_integral_value()) for one in exact]


def tables() -> dict[str, list[int]]:
    """Give the tables as they are stored, by per cent."""
    normal = quantiles()
    return {str(percent): factors(percent, normal) for percent in PERCENTS}


def _quantile(probability: Decimal) -> Decimal:
    """Solve Phi(z) = probability by Newton's method, from what floats know of it."""
    found = Decimal(NormalDist().inv_cdf(float(probability)))
    for _ in range(2):
        density = (-found * found / 2).exp() / (2 * _PI).sqrt()
        found -= (_below(found) - probability) / density
    return found


def _below(z: Decimal) -> Decimal:
    """Give Phi(z) = 1/2 + phi(z) (z + z³/3 + z⁵/(3·5) + …)."""
    term = total = z
    number = 1
    while abs(term) > Decimal(10) ** -(_DIGITS - 5):
        number += 2
        term *= z * z / number
        total += term
    return Decimal(1) / 2 + (-z * z / 2).exp() / (2 * _PI).sqrt() * total


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(tables()) + "\n", encoding="utf-8")
