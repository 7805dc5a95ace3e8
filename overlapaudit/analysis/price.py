"""How much a cost weighs: severity follows the price."""

from __future__ import annotations

from overlapaudit.model.kinds import Severity

# A cost counts as one from 20 µs or half a per cent of its window on, whichever is more; a tenth
# of the window is an error.
SMALLEST_COST_NS = 20_000


def severity_of(cost_ns: int, window_ns: int) -> Severity:
    """Give the severity of a cost in its window; the bounds are compared as integers."""
    if cost_ns > 0 and 10 * cost_ns >= window_ns:
        return Severity.ERROR
    if cost_ns >= SMALLEST_COST_NS and 200 * cost_ns >= window_ns:
        return Severity.WARNING
    return Severity.INFO
