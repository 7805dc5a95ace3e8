"""The audit of changed copies of the real traces agrees with the naive figures, in any window.

Each run takes a few of the changes for every trace; OVERLAPAUDIT_FULL=1 takes all of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from tests.oracle import naive, perturb
from tests.oracle.compare import audit_figures

pytestmark = pytest.mark.traces

FOLDER = os.environ.get("OVERLAPAUDIT_TRACES")
FILES = sorted(path.name for path in (Path(FOLDER) / "nsys").glob("*.sqlite")) if FOLDER else []
SAMPLED = 2  # changes for each trace

Change = Callable[[Path, Path, int], dict[int, int] | None]
CHANGES: dict[str, Change] = {
    "later": lambda src, dst, seed: perturb.shift_times(src, dst, 10**9 + seed),
    "before_the_session": lambda src, dst, seed: perturb.shift_times(src, dst, -(10**12) - seed),
    "other_processes": perturb.renumber_processes,
    "other_streams": perturb.renumber_streams,
    "other_row_order": perturb.swap_row_order,
    "rows_lost": lambda src, dst, seed: perturb.drop_rows(src, dst, 0.2, seed),
}


def cases() -> list[tuple[str, str, int]]:
    """Give (file, change, seed): all, or a sample in which every change meets some traces."""
    every = [
        [(file, change, 100 * number + index) for index, change in enumerate(CHANGES)]
        for number, file in enumerate(FILES)
    ]
    if os.environ.get("OVERLAPAUDIT_FULL") == "1":
        return [case for of_file in every for case in of_file]
    return [
        of_file[(SAMPLED * number + index) % len(CHANGES)]
        for number, of_file in enumerate(every)
        for index in range(SAMPLED)
    ]


@pytest.mark.parametrize(("file", "change", "seed"), cases())
def test_changed_trace(traces: Path, tmp_path: Path, file: str, change: str, seed: int) -> None:
    original, changed = traces / "nsys" / file, tmp_path / file
    new_ids = CHANGES[change](original, changed, seed)

    expected = naive.figures(changed)
    if change != "rows_lost":
        assert expected == renamed(naive.figures(original), new_ids or {})

    with oa.open_trace(changed) as trace:
        assert audit_figures(oa.audit(trace).to_dict()) == expected
        for window in windows(changed, seed):
            assert figures_of_window(trace, window) == naive.figures(changed, window)


def test_window_without_gpu_work_is_refused(traces: Path) -> None:
    path = traces / "nsys" / "a100_serial_then_overlap.2023.4.sqlite"
    first = min(one.start for one in naive.read_work(path))
    with oa.open_trace(path) as trace, pytest.raises(oa.UsageError):
        figures_of_window(trace, (first - 1000, first))


def renamed(figures: dict[str, Any], new_ids: dict[int, int]) -> dict[str, Any]:
    """Give figures with the processes' new ids."""
    devices = [
        {**device, "process": new_ids.get(device["process"], device["process"])}
        for device in figures["devices"]
    ]
    devices.sort(key=lambda device: (device["process"], device["device"]))
    return {**figures, "devices": devices}


def windows(path: Path, seed: int) -> list[tuple[int, int]]:
    """Draw windows with GPU work: one with edges anywhere, one that begins or ends as work does."""
    draw = random.Random(seed)
    work = [one for one in naive.read_work(path) if one.has_time and one.start < one.end]
    edges = sorted({one.start for one in work} | {one.end for one in work})
    inside = draw.choice(work)
    anywhere = (
        draw.randint(edges[0] - 1000, inside.end - 1),
        draw.randint(inside.start + 1, edges[-1] + 1000),
    )
    first, last = sorted(draw.sample(edges, 2))
    return [(min(anywhere[0], anywhere[1] - 1), anywhere[1]), (first, last)]


def figures_of_window(trace: oa.Trace, window: tuple[int, int]) -> dict[str, Any]:
    """Audit a window of a trace."""
    return audit_figures(oa.audit(trace, window=f"{window[0]}ns..{window[1]}ns").to_dict())
