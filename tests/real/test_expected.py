"""The audit of every real trace gives the figures that are known to be right."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from tests.oracle import naive
from tests.oracle.compare import audit_figures

pytestmark = pytest.mark.traces

FOLDER = os.environ.get("OVERLAPAUDIT_TRACES")
EXPECTED = json.loads((Path(FOLDER) / "expected.json").read_text()) if FOLDER else []
BY_FILE = {entry["file"]: entry for entry in EXPECTED}
SAME_REPORT = [
    ("titanrtx_dnn_colocation.2022.4.sqlite", "titanrtx_dnn_colocation.2024.2.sqlite"),
    ("v100_graph_nodes_events.2023.4.sqlite", "v100_graph_nodes_events.2024.2.sqlite"),
]


def audit(path: Path) -> dict[str, Any]:
    with oa.open_trace(path) as trace:
        return oa.audit(trace).to_dict()


def test_every_real_trace_has_expected_figures(traces: Path) -> None:
    assert sorted(BY_FILE) == sorted(path.name for path in (traces / "nsys").glob("*.sqlite"))
    assert len(BY_FILE) >= 16


@pytest.mark.parametrize("file", BY_FILE)
def test_figures_are_exact(traces: Path, file: str) -> None:
    assert audit_figures(audit(traces / "nsys" / file)) == BY_FILE[file]


@pytest.mark.parametrize("file", BY_FILE)
def test_naive_figures_are_exact(traces: Path, file: str) -> None:
    assert naive.figures(traces / "nsys" / file) == BY_FILE[file]


def test_figures_of_directories_are_exact(traces: Path) -> None:
    expected = json.loads((traces / "expected_dirs.json").read_text())
    assert len(expected["file"]) == 2
    for folder in expected["file"]:
        figures = audit_figures(audit(traces / "nsys_dirs" / folder))
        assert figures == {**expected, "file": folder}


@pytest.mark.parametrize(("older", "newer"), SAME_REPORT)
def test_one_report_exported_by_two_versions_gives_one_answer(
    traces: Path, older: str, newer: str
) -> None:
    first, second = audit(traces / "nsys" / older), audit(traces / "nsys" / newer)
    assert first["devices"] == second["devices"]
    for key in ("operations", "operations_with_launch", "launches", "launches_with_operation"):
        assert first["coverage"][key] == second["coverage"][key]


def test_copies_on_the_stream_of_the_kernels_are_no_idle_time(traces: Path) -> None:
    devices = audit(traces / "nsys" / "h100x2_weight_load.2026.2.sqlite")["devices"]
    assert [f"{d['idle_ns'] / d['window_ns']:.1%}" for d in devices] == ["0.7%", "0.7%"]
    assert all(pair["overlap_ns"] == 0 for d in devices for pair in d["overlap"])


def test_opaque_graph_replays_are_no_idle_time(traces: Path) -> None:
    document = audit(traces / "nsys" / "a100_compiled_graph_level.2024.6.sqlite")
    (device,) = document["devices"]
    assert device["busy_ns"] / device["window_ns"] > 0.99
    assert document["coverage"]["opaque_graph_ns"] == 7_811_141_695
    assert "OA002" in [finding["code"] for finding in document["findings"]]
