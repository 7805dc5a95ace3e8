"""On a terminal: colour unless it is unwanted, its width, and progress of long reads."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from overlapaudit.cli import inputs
from overlapaudit_reports.escape import printable, shortened
from overlapaudit_reports.figures import TimeUnit, count, duration, share
from overlapaudit_reports.terminal import Terminal
from tests.tracebuilder import GraphLaunch, Kernel, make_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return make_trace(
        tmp_path / "trace.sqlite", kernels=[Kernel(0, 9)], graph_launches=[GraphLaunch(9, 90)]
    )


def on_a_terminal(trace: Path, columns: int, **environment: str) -> str:
    """Run an audit on a terminal of its own, and give what it shows there."""
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "overlapaudit", "audit", str(trace)]
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    env |= {"COLUMNS": str(columns), "TERM": "xterm-256color", **environment}
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, stdin=theirs, env=env) as child:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:
            pass  # how Linux says that the other side has gone
        assert child.wait() == 0
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_colour(trace: Path) -> None:
    coloured = on_a_terminal(trace, 80)
    assert "\x1b[1;33mwarning" in coloured
    plain = on_a_terminal(trace, 80, NO_COLOR="1")
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize(("columns", "widest"), [(40, 72), (80, 80), (200, 120)])
def test_width(trace: Path, columns: int, widest: int) -> None:
    lines = on_a_terminal(trace, columns, NO_COLOR="1").splitlines()
    assert widest - 25 < max(map(len, lines)) <= widest


def test_progress(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inputs, "_SILENT_FOR_S", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with inputs.opened([trace], None) as (opened,):
        assert opened.operations.height == 2
    shown = capsys.readouterr().err
    assert "reading " in shown
    assert shown.endswith("\r\x1b[K")  # nothing of it stays
    assert "\n" not in shown


def test_no_progress_where_nobody_looks(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with inputs.opened([trace], None) as (opened,):
        assert opened.operations.height == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "unknown"),
        (0, "0.000 µs"),
        (1, "0.001 µs"),
        (9_999_999, "9,999.999 µs"),
        (10_000_000, "10.000 ms"),
        (10_000_499, "10.000 ms"),
        (10_000_500, "10.001 ms"),
        (-1_500, "-1.500 µs"),
        (123_456_789_012, "123.457 s"),
    ],
)
def test_durations(ns: int | None, text: str) -> None:
    assert duration(ns) == text


def test_small_times_in_large_units_are_not_nothing() -> None:
    assert TimeUnit.for_window(50_000_000).text(999) == "<0.001"
    assert TimeUnit.for_window(50_000_000).text(0) == "0.000"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0.0 %"),
        (1, 3_000, "<0.1 %"),
        (1, 3, "33.3 %"),
        (2, 3, "66.7 %"),
        (9_999_999, 10_000_000, ">99.9 %"),
        (10, 10, "100.0 %"),
        (0, 0, "n/a"),
        (None, 10, "unknown"),
        (3, None, "unknown"),
    ],
)
def test_shares(part: int | None, whole: int | None, text: str) -> None:
    assert share(part, whole) == text


def test_counts() -> None:
    assert (count(1_234_567), count(None)) == ("1,234,567", "unknown")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字", "plain é 漢字"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb\tc\x00", r"a\nb\tc\x00"),
        ("\u202eevil", r"\u202eevil"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("width", "shown"),
    [(11, "hello world"), (10, "hello …rld"), (5, "hel…d"), (4, "hell"), (0, "")],
)
def test_shortened(width: int, shown: str) -> None:
    assert shortened("hello world", width) == shown


def test_bars() -> None:
    terminal = Terminal()
    assert terminal.bar(1, 2, 4) == "██"
    assert terminal.bar(1, 10_000, 4) == "▏"
    assert terminal.bar(0, 10, 4) == terminal.bar(3, 0, 4) == ""
    assert Terminal(unicode=False).bar(1, 2, 4) == "##"
