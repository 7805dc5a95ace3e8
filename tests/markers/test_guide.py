"""The programs in docs/markers.md run, and write what they should."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from overlapaudit_nvtx import request_ids
from overlapaudit_nvtx.vocabulary import LEVELS, PHASES
from tests.guide import GUIDE, Written, everything, program
from tests.markers.recorder import Recorder

KINDS = {"push": "push_pop", "start": "start_end", "mark": "mark"}


def written(lines: list[str]) -> Counter[Written]:
    """Read what the recorder wrote down."""
    found: Counter[Written] = Counter()
    for line in lines:
        what, event, *key = line.split(" ")
        if what in KINDS:
            words, _, facts = event.partition("|")
            level, _, phase = words.partition(".")
            number = int(key[0]) if key else None
            found[Written(KINDS[what], level, phase, number, facts or None)] += 1
    return found


def test_the_complete_program(
    tool: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(request_ids, "_NUMBERS", {})
    monkeypatch.setattr(request_ids, "_NEXT", iter(range(1, 100)))
    exec(compile(program("everything"), GUIDE, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "[8, 12, 18]\n"
    assert written(tool.take()) == everything()
    assert not tool.running


def test_it_uses_every_phase() -> None:
    used = {(one.level, one.phase) for one in everything()}
    assert used >= {(level, phase) for level in LEVELS for phase in PHASES[level]}


def test_ten_lines(tool: Recorder) -> None:
    code = program("ten lines")
    ours = [line for line in code.splitlines() if re.search(r"request\(|iteration\(|@layer", line)]
    assert len(ours) <= 10
    exec(compile(code, GUIDE, "exec"), {"__name__": "__main__"})
    assert [re.sub(r" \d+$", "", line) for line in tool.take()] == [
        "start request.prefill|id=cmpl-17",
        "push iteration.step|tokens=512,requests=8", "push layer.attn",
        "pop layer.attn", "pop iteration.step|tokens=512,requests=8",
        "end request.prefill|id=cmpl-17",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["ten lines", "everything"])
def test_they_run_where_nobody_listens(name: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(program(name), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_torch(tool: Recorder) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    exec(compile(program("torch"), GUIDE, "exec"), {"__name__": "__main__"})
    lines = [line for line in tool.take() if line.startswith("push")]
    assert lines[:4] == [
        f"push layer.{phase} {index}" for index in (0, 1) for phase in ("attn", "expert")
    ]
