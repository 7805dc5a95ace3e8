"""The audit of a scrubbed real trace is the audit of the trace."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from overlapaudit.scrub import scrub

pytestmark = pytest.mark.traces

FILES = [
    "a100_saxpy_mpi.2022.2.sqlite",
    "v100_graph_nodes_events.2023.4.sqlite",
    "a100_streamed_gpu_metrics.2024.2.sqlite",
    "rtx3060_graph_level.2025.5.sqlite",
    "rtx3080_minimal.2026.1.sqlite",
    "h100x2_train_nccl_before.2026.2.sqlite",
]


@pytest.mark.parametrize("file", FILES)
def test_audit_of_the_copy_is_the_audit_of_the_trace(
    traces: Path, tmp_path: Path, file: str
) -> None:
    source, target = traces / "nsys" / file, tmp_path / "copy.sqlite"
    before = hashlib.sha256(source.read_bytes()).digest()
    scrub(source, target)
    assert hashlib.sha256(source.read_bytes()).digest() == before
    assert audit(target) == audit(source)


def audit(path: Path) -> dict[str, Any]:
    """Audit a file, and leave out which file it is."""
    with oa.open_trace(path) as trace:
        document = oa.audit(trace).to_dict()
    del document["inputs"]
    return document
