"""The house stands as its plans say: style, types, layers, what an import loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"numba", "torch", "plotly", "polars", "pandas", "pyarrow", "numpy"}


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["lint-imports"],
    ],
    ids=" ".join,
)
def test_tools_have_nothing_to_say(command: list[str]) -> None:
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [str(program), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "import overlapaudit",
        "import sys; sys.argv = ['overlapaudit', '--help']\n"
        "from overlapaudit.cli.main import run; run()",
    ],
    ids=["import", "help"],
)
def test_start_up_is_light(program: str) -> None:
    report = "\nimport sys; print(' '.join(sorted(name for name in sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program + report], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "overlapaudit" in loaded
    assert not loaded & HEAVY


def test_no_audit_of_a_small_trace_loads_numba(tmp_path: Path) -> None:
    program = (
        "import sys, overlapaudit as oa\n"
        "with oa.open_trace(sys.argv[1]) as trace: oa.audit(trace).to_json()\n"
        "assert 'numba' not in sys.modules"
    )
    sample = ROOT / "sample_traces" / "decode_steps.sqlite"
    subprocess.run([sys.executable, "-c", program, str(sample)], check=True)


def test_text_speaks_of_the_project_alone() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    for path in paths:
        if path.suffix in {".sqlite", ".parquet"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        assert "/" + "work/" not in text, path
        assert "/" + "root/" not in text, path
