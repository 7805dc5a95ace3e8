"""Compare ready-made SQLite drivers at reading what an audit reads.

    python benchmarks/drivers.py FILE [--runs 3] [--only NAME]

Every measurement is a process of its own, and the drivers take turns. "read" is the reading alone,
"process" also starting Python and importing the driver, "peak" the process's largest resident set.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from child_process import Child, ChildFailed, median_peak, median_seconds, run_child, warm
from columns import Columns, wanted_columns
from readers import READERS, NotAvailable

CONTENDERS = ("adbc, 2 threads", "connectorx")
"""The drivers that can be the fastest."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of a driver."""

    child: Child
    rows: int
    read_seconds: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Medians over the runs of a driver."""

    name: str
    rows: int
    read_seconds: float
    process_seconds: float
    peak_bytes: float


def measure(name: str, path: Path, columns: Columns) -> Measurement:
    """Read the columns once with a driver, in a fresh process."""
    arguments = [str(path), "--child", name, "--columns", json.dumps(columns)]
    child = run_child([sys.executable, __file__, *arguments])
    answer = json.loads(child.output)
    if reason := answer.get("unavailable"):
        raise NotAvailable(reason)
    return Measurement(child, answer["rows"], answer["seconds"])


def summarize(name: str, measurements: Sequence[Measurement]) -> Summary:
    """Take the medians."""
    children = [one.child for one in measurements]
    return Summary(
        name,
        measurements[0].rows,
        statistics.median(one.read_seconds for one in measurements),
        median_seconds(children),
        median_peak(children),
    )


def quickest(summaries: Sequence[Summary]) -> Summary:
    """Choose the driver whose whole process takes the least time."""
    return min(summaries, key=lambda summary: summary.process_seconds)


def fastest(path: Path, runs: int, columns: Columns | None = None) -> Summary:
    """Measure the contenders, taking turns, and give the quickest."""
    columns = columns or wanted_columns(path)[1]
    taken: dict[str, list[Measurement]] = {name: [] for name in CONTENDERS}
    for _ in range(runs):
        for name, measurements in taken.items():
            measurements.append(measure(name, path, columns))
    return quickest([summarize(name, measurements) for name, measurements in taken.items()])


def main() -> int:
    """Read the command line, measure and print the table."""
    parser = argparse.ArgumentParser(description="Compare drivers at reading an nsys export.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=sorted(READERS), help="measure this driver alone")
    parser.add_argument("--child", choices=sorted(READERS), help=argparse.SUPPRESS)
    parser.add_argument("--columns", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_read_here(arguments.child, arguments.file, arguments.columns)))
        return 0
    if not arguments.file.is_file():
        parser.error(f"{arguments.file}: no such file")
    names = [arguments.only] if arguments.only else list(READERS)
    _compare(arguments.file, names, max(arguments.runs, 1))
    return 0


def _read_here(name: str, path: Path, columns: Columns) -> dict[str, object]:
    """Read in this process; give the rows and the seconds."""
    reader = READERS[name]
    try:
        for module in reader.modules:
            importlib.import_module(module)
        started = time.perf_counter()
        frames = reader.read(path, columns)
        seconds = time.perf_counter() - started
    except ModuleNotFoundError as error:
        return {"unavailable": f"not installed: {error.name}"}
    except NotAvailable as error:
        return {"unavailable": str(error)}
    return {"rows": sum(len(frame) for frame in frames.values()), "seconds": seconds}


def _compare(path: Path, names: Sequence[str], runs: int) -> None:
    """Measure the drivers in turns and print one line each."""
    source, columns = wanted_columns(path)
    print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, columns of {source}, {runs} runs")
    warm(path)
    taken: dict[str, list[Measurement]] = {name: [] for name in names}
    reasons: dict[str, str] = {}
    for _ in range(runs):
        for name in names:
            if name in reasons:
                continue
            try:
                taken[name].append(measure(name, path, columns))
            except (NotAvailable, ChildFailed) as error:
                reasons[name] = str(error)
    print(f"{'driver':<24}{'M rows/s':>10}{'read s':>9}{'process s':>11}{'peak MB':>9}")
    for name in names:
        print(f"{name:<24}{reasons[name] if name in reasons else _line(name, taken[name])}")


def _line(name: str, measurements: Sequence[Measurement]) -> str:
    """Write the figures of a driver."""
    summary = summarize(name, measurements)
    rate = summary.rows / summary.read_seconds / 1e6
    return (
        f"{rate:>10.2f}{summary.read_seconds:>9.2f}{summary.process_seconds:>11.2f}"
        f"{summary.peak_bytes / 1e6:>9.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
