"""Run one command as a fresh process and measure it.

The parent must stay small: Linux starts a child's peak memory from its parent's, so scripts that
measure import nothing big themselves.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Child:
    """What one process took; `peak_bytes` is its largest resident set."""

    seconds: float
    peak_bytes: int
    output: str


class ChildFailed(Exception):
    """A measured command did not succeed."""


def run_child(command: Sequence[str], extra_env: Mapping[str, str] | None = None) -> Child:
    """Run a command to its end, with nothing on its standard input."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | dict(extra_env or {}),
            )
        except FileNotFoundError as error:
            raise ChildFailed(f"{command[0]}: no such command") from error
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            tail = err.read().decode(errors="replace").strip()[-600:]
            shown = " ".join(command)[:200]
            raise ChildFailed(f"exit status {process.returncode} of {shown}\n{tail}")
        output = out.read().decode(errors="replace")
    return Child(seconds, usage.ru_maxrss * _MAXRSS_UNIT, output)


def median_seconds(children: Sequence[Child]) -> float:
    """Give the median wall time."""
    return statistics.median(child.seconds for child in children)


def median_peak(children: Sequence[Child]) -> float:
    """Give the median peak memory in bytes."""
    return statistics.median(child.peak_bytes for child in children)


def warm(path: Path) -> None:
    """Read a file once, so that every measurement finds it in the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass
