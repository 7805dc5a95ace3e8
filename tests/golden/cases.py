"""What the golden files hold, and how they are made."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import overlapaudit as oa
from overlapaudit.audit import recordings
from overlapaudit.rules.catalogue import RULES
from overlapaudit_reports.doctor import doctor_text
from overlapaudit_reports.rules import rules_text
from overlapaudit_reports.terminal import Terminal
from overlapaudit_reports.text import audit_text
from tests.contract import audit_schema
from tests.picture import picture
from tests.samples import decode_steps
from tests.tracebuilder import (
    ApiCall,
    GraphLaunch,
    Kernel,
    MemoryEvent,
    global_pid,
    main_thread,
    make_trace,
)

ROOT = Path(__file__).parents[2]
FILES = Path(__file__).parent / "files"
SAMPLE = ROOT / "sample_traces" / "decode_steps.sqlite"
SCHEMA = ROOT / "overlapaudit" / "model" / "audit.schema.json"
PICTURE = ROOT / "docs" / "lanes.svg"
PLAIN = Terminal(width=80, colour=False, unicode=True)

# A trace with much to say about itself.
TROUBLED: dict[str, Any] = {
    "schema": "2024.6",
    "kernels": [
        Kernel(10_000, 40_000, "void frobnicate<int>(float*)"),
        Kernel(50_000, 60_000, "sm80_xmma_gemm_f16f16", launch=None),
        Kernel(70_000, 90_000, "sm80_xmma_gemm_f16f16", stream=9,
               launch=ApiCall("cudaLaunchKernel_v7000", 80_000, 81_000)),
    ],
    "graph_launches": [GraphLaunch(100_000, 400_000)],
    "memory_events": [MemoryEvent(5)],
    "api_calls": [
        ApiCall("cudaLaunchKernel_v7000", 1_000, 2_000, main_thread(global_pid(2000))),
        ApiCall("cudaStreamWaitEvent_v3020", 3_000, 4_000),
    ],
}  # fmt: skip


def write_sample(path: Path) -> None:
    """Write the bundled trace."""
    make_trace(path, **decode_steps())


def dump(path: Path) -> list[str]:
    """Give the content of a database as SQL."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        return list(database.iterdump())


def golden_files() -> Mapping[Path, Callable[[], str]]:
    """Give every golden file with what makes its content."""
    return {
        FILES / "decode_steps.json": lambda: _audit(SAMPLE).to_json(),
        FILES / "decode_steps.txt": lambda: audit_text(_audit(SAMPLE).document, PLAIN),
        FILES / "decode_steps.window.txt": lambda: audit_text(
            _audit(SAMPLE, "2.5ms..3ms").document, PLAIN
        ),
        FILES / "decode_steps.doctor.txt": lambda: _doctor(SAMPLE),
        FILES / "troubled.json": lambda: _of_troubled(_json_without_hash),
        FILES / "troubled.txt": lambda: _of_troubled(
            lambda path: audit_text(_audit(path).document, PLAIN)
        ),
        FILES / "troubled.doctor.txt": lambda: _of_troubled(_doctor),
        FILES / "rules.txt": lambda: rules_text(RULES.values(), PLAIN),
        PICTURE: lambda: picture(SAMPLE),
        SCHEMA: lambda: json.dumps(audit_schema(), indent=2, sort_keys=True) + "\n",
    }


def _audit(path: Path, window: str = "trace") -> oa.Audit:
    with oa.open_trace(path) as trace:
        return oa.audit(trace, window=window)


def _doctor(path: Path) -> str:
    with oa.open_trace(path) as trace:
        return doctor_text(oa.audit(trace).document, recordings([trace]), PLAIN)


def _of_troubled(make: Callable[[Path], str]) -> str:
    with TemporaryDirectory() as folder:
        return make(make_trace(Path(folder) / "troubled.sqlite", **TROUBLED))


def _json_without_hash(path: Path) -> str:
    # The bytes of a new file depend on the version of SQLite.
    with oa.open_trace(path) as trace:
        sha256 = trace.identity.sha256
    return _audit(path).to_json().replace(sha256, "(sha256)")
