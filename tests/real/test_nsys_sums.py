"""The kernels of the product are those of NVIDIA's own report on the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.nsys_kern_sum import sums_of_audit, sums_of_nsys

pytestmark = [pytest.mark.traces, pytest.mark.nsys]

# Two processes with equal correlation ids; an old schema in which names recur across grids.
SMALL = ["h100x2_train_nccl_after.2026.2.sqlite", "v100_graph_nodes_events.2023.4.sqlite"]


@pytest.mark.parametrize("file", SMALL)
def test_kernels_are_those_of_nsys(traces: Path, nsys: Path, file: str) -> None:
    theirs = sums_of_nsys(nsys, traces / "nsys" / file)
    assert theirs is not None, "this nsys makes no report of the trace"
    assert len(theirs) >= 27
    assert sums_of_audit(traces / "nsys" / file) == theirs
