"""`.nsys-rep` files: through the nsys on the PATH, or one line that says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import overlapaudit as oa
from tests.tracebuilder import Kernel, make_trace

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"a report")
    return path


def fake_nsys(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called nsys in front of the PATH."""
    program = folder / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_without_nsys(report: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(oa.InputError, match="needs nsys, which is not on the PATH"):
        oa.open_trace(report)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'made by a newer version' >&2; exit 1", "made by a newer version"),
        ("echo ERROR; exit 0", "ERROR"),
        ("exit 0", "no reason given"),
        ('while [ "$1" != --output ]; do shift; done; : > "$2"', "no reason given"),
    ],
)
def test_nsys_that_fails(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    fake_nsys(tmp_path, script, monkeypatch)
    with pytest.raises(oa.InputError, match="nsys cannot export it") as refused:
        oa.open_trace(report)
    assert said in str(refused.value)
    assert report.name in str(refused.value)


def test_nsys_that_exports(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = make_trace(tmp_path / "exported.sqlite", kernels=[Kernel(0, 10)])
    script = f'while [ "$1" != --output ]; do shift; done; cp {exported} "$2"'
    fake_nsys(tmp_path, script, monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with oa.open_trace(report) as trace:
        document = oa.audit(trace).to_dict()
        assert len(list(tmp_path.glob("overlapaudit-*"))) == 1
    assert document["devices"][0]["busy_ns"] == 10
    assert document["inputs"][0]["file"] == "run.nsys-rep"
    assert list(tmp_path.glob("overlapaudit-*")) == []  # the export is gone
    assert report.read_bytes() == b"a report"


def test_a_capture_that_was_not_finalised(tmp_path: Path) -> None:
    path = tmp_path / "run.qdstrm"
    path.write_bytes(b"x")
    with pytest.raises(oa.InputError, match="not finalised"):
        oa.find_traces([path])


@pytest.mark.nsys
def test_a_real_report(nsys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [nsys, "profile", "-t", "osrt", "--sample=none", "--cpuctxsw=none", "-o", "run"]
    subprocess.run(
        [*map(str, command), sys.executable, "-c", "pass"],
        cwd=tmp_path, env=environment, capture_output=True, check=True,
    )  # fmt: skip
    monkeypatch.setenv("PATH", f"{nsys.parent}{os.pathsep}{os.environ['PATH']}")
    before = sorted(tmp_path.iterdir())
    with oa.open_trace(tmp_path / "run.nsys-rep") as trace:
        result = oa.audit(trace)
        assert trace.identity.tool_version is not None
    assert [finding.code for finding in result.findings] == ["OA001"]
    assert result.document.devices is None
    assert sorted(tmp_path.iterdir()) == before
