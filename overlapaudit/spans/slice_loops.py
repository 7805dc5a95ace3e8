"""Measure slices of operations (compiled with numba): a million ranges hold them many times over.

Loaded only where there is much to do, as numba costs half a second of start-up.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

# Rows may be moved this many places on average while they are put in the order of their start.
_MOVES = 32


@nb.njit(nogil=True, cache=True)
def measure_slices(
    first: Any, last: Any, start: Any, end: Any, gpu_start: Any, gpu_end: Any, busy: Any
) -> Any:
    """Fill the envelope and the union of each slice; both are nearly in the order of their start.

    Args:
        first: int64 [slices].
        last: int64 [slices], beyond `first`.
        start: int64 [operations].
        end: int64 [operations].
        gpu_start: int64 [slices], written in place.
        gpu_end: int64 [slices], written in place.
        busy: int64 [slices], written in place; -1 where the order was too far off.

    Returns:
        The number of slices that were given up.
    """
    longest = 0
    for index in range(len(first)):
        longest = max(longest, last[index] - first[index])
    starts = np.empty(longest, dtype=np.int64)
    ends = np.empty(longest, dtype=np.int64)
    given_up = 0
    for index in range(len(first)):
        count = last[index] - first[index]
        moves = np.int64(0)
        for row in range(count):
            begin, stop = start[first[index] + row], end[first[index] + row]
            place = row
            while place > 0 and starts[place - 1] > begin and moves <= _MOVES * count:
                starts[place] = starts[place - 1]
                ends[place] = ends[place - 1]
                place -= 1
                moves += 1
            starts[place] = begin
            ends[place] = stop
        if moves > _MOVES * count:
            busy[index] = -1
            given_up += 1
            continue
        reached = starts[0]
        total = np.int64(0)
        for row in range(count):
            if ends[row] > reached:
                total += ends[row] - max(starts[row], reached)
                reached = ends[row]
        gpu_start[index] = starts[0]
        gpu_end[index] = reached
        busy[index] = total
    return given_up
