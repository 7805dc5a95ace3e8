"""How much a cost weighs: severity follows the price, in the trace and in each iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapaudit import intervals
from overlapaudit.intervals import IntervalSet, Times
from overlapaudit.model.findings import WindowRef
from overlapaudit.model.kinds import Severity
from overlapaudit.model.window import WindowKind
from overlapaudit.spans.iterations import Iterations

# A cost counts as one from 20 µs or half a per cent of its window on, whichever is more; a tenth
# of the window is an error.
SMALLEST_COST_NS = 20_000


@dataclass(frozen=True, slots=True)
class Scale:
    """What the costs of a process are weighed against.

    Attributes:
        window_ns: the window of the devices that the cost is of, added up.
        devices: how many devices that is.
        iterations: the iterations of the process; None where they are not known.
        iterations_alone: whether time outside iterations does not count.
    """

    window_ns: int
    devices: int = 1
    iterations: Iterations | None = None
    iterations_alone: bool = False


@dataclass(frozen=True, slots=True)
class Weight:
    """What a cost comes to.

    Attributes:
        cost_ns: all of it.
        severity: the gravest of the whole window's and of each iteration's.
        windows: the iterations in which it is more than an info.
    """

    cost_ns: int
    severity: Severity
    windows: tuple[WindowRef, ...]


def severity_of(cost_ns: int, window_ns: int) -> Severity:
    """Give the severity of a cost in its window; the bounds are compared as integers."""
    if cost_ns > 0 and 10 * cost_ns >= window_ns:
        return Severity.ERROR
    if cost_ns >= SMALLEST_COST_NS and 200 * cost_ns >= window_ns:
        return Severity.WARNING
    return Severity.INFO


def weigh(costs: Sequence[IntervalSet], scale: Scale) -> Weight:
    """Weigh a cost that is lost time, one set for each device."""
    per_iteration = None
    if scale.iterations is not None:
        starts, ends = scale.iterations.start_ns, scale.iterations.end_ns
        per_iteration = np.zeros(len(scale.iterations), dtype=np.int64)
        for cost in costs:
            per_iteration += intervals.length_within(cost, starts, ends)
    return weigh_figures(sum(cost.length_ns for cost in costs), per_iteration, scale)


def weigh_figures(cost_ns: int, per_iteration: Times | None, scale: Scale) -> Weight:
    """Weigh a cost of which the sum is known, and the part of each iteration (int64 [n])."""
    if scale.iterations is None or per_iteration is None:
        return Weight(cost_ns, severity_of(cost_ns, scale.window_ns), ())
    lengths = (scale.iterations.end_ns - scale.iterations.start_ns) * scale.devices
    # A tenth of a window of 150 µs is no more than the smallest cost.
    counts = per_iteration >= SMALLEST_COST_NS
    grave = counts & (10 * per_iteration >= lengths)
    bites = counts & (200 * per_iteration >= lengths)
    several = [Severity.ERROR] if grave.any() else [Severity.WARNING] if bites.any() else []
    if scale.iterations_alone:
        cost_ns = int(per_iteration.sum())
        several.append(severity_of(cost_ns, int(lengths.sum())))
    else:
        several.append(severity_of(cost_ns, scale.window_ns))
    order = list(Severity)
    return Weight(
        cost_ns,
        max(several, key=order.index),
        tuple(
            WindowRef(WindowKind.ITERATION.value, int(number))
            for number in scale.iterations.id[bites]
        ),
    )
