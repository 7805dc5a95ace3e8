"""Hold an audit against the bare reading of its columns, and against one `nsys stats` report.

    python benchmarks/audit.py [--sizes 0.1,1,5] [--runs 3] [--data DIR] [--nsys PATH]

Sizes are millions of kernels. All commands run as processes of their own and take turns. Exit
status: 0 within the limits, 1 a limit exceeded, 2 something could not run.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from child_process import Child, ChildFailed, median_peak, median_seconds, run_child, warm
from columns import Columns, wanted_columns
from drivers import CONTENDERS, Measurement, Summary, measure, quickest, summarize

TIME_LIMIT = 2.5
"""Of an audit's time over that of the fastest bare read, both as whole processes."""
LIMITED_FROM_MILLIONS = 1.0
"""Below this, starting Python and importing is most of both."""
PEAK_LIMIT_PER_ROW, PEAK_LIMIT_FIXED = 270, 300_000_000
"""Of an audit's peak memory, in bytes."""
NSYS_GOAL = 2.0
"""For an audit's time over that of one `nsys stats` report; missing it is no failure."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The commands to measure on one file, and a folder for what they write."""

    path: Path
    audit_command: list[str]
    nsys: str | None
    columns: Columns
    scratch: Path

    def read(self, name: str) -> Measurement:
        """Read the columns with a ready-made driver."""
        return measure(name, self.path, self.columns)

    def audit(self) -> Child:
        """Audit the file; compiled code is kept between runs, results are not."""
        out = self.scratch / "audit.json"
        out.unlink(missing_ok=True)
        caches = self.scratch / "cache"
        shutil.rmtree(caches, ignore_errors=True)
        child = run_child(
            [*self.audit_command, "audit", str(self.path), "--json", str(out)],
            {"NUMBA_CACHE_DIR": str(self.scratch / "numba"), "XDG_CACHE_HOME": str(caches)},
        )
        if not out.is_file() or not out.stat().st_size:
            raise ChildFailed(f"the audit of {self.path.name} wrote no JSON")
        return child

    def nsys_stats(self) -> Child:
        """Let nsys summarize the kernels of the same file."""
        assert self.nsys
        out = self.scratch / "stats"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        child = run_child(
            [
                self.nsys, "stats", "--force-export=false", "--report", _report(self.nsys),
                "--format", "csv", "-o", str(out / "report"), str(self.path),
            ]
        )  # fmt: skip
        if not any(report.stat().st_size for report in out.iterdir()):
            raise ChildFailed(f"nsys stats wrote no report of {self.path.name}")
        return child


@dataclass(slots=True)
class Taken:
    """The measurements of one file."""

    cold: Child
    reads: dict[str, list[Measurement]] = field(default_factory=dict)
    audits: list[Child] = field(default_factory=list)
    stats: list[Child] = field(default_factory=list)


def main() -> int:
    """Read the command line, measure every size and print the verdicts."""
    arguments = _arguments()
    nsys = arguments.nsys or shutil.which("nsys")
    within = True
    try:
        for size in arguments.sizes:
            path = _export(arguments.data, size)
            source, columns = wanted_columns(path)
            with tempfile.TemporaryDirectory() as scratch:
                bench = Bench(path, arguments.audit_command, nsys, columns, Path(scratch))
                taken = _take(bench, arguments.runs)
            limited = size >= LIMITED_FROM_MILLIONS
            within &= _report_size(path, source, taken, limited=limited)
    except ChildFailed as error:
        print(f"audit.py: {error}", file=sys.stderr)
        return 2
    return 0 if within else 1


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure an audit against reading alone.")
    parser.add_argument("--sizes", type=_sizes, default=[0.1, 1, 5], help="millions of kernels")
    parser.add_argument("--runs", type=int, choices=range(1, 100), default=3, metavar="N")
    parser.add_argument(
        "--data", type=Path, default=Path(tempfile.gettempdir()) / "overlapaudit-bench",
        help="folder of the generated exports (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--nsys", help="an nsys to compare with (default: the one on PATH)")
    parser.add_argument(
        "--audit-command", type=shlex.split, default=["overlapaudit"], metavar="COMMAND",
        help="what runs in place of overlapaudit",
    )  # fmt: skip
    return parser.parse_args()


def _sizes(text: str) -> list[float]:
    """Read a list of sizes."""
    return [float(part) for part in text.split(",")]


def _export(folder: Path, size: float) -> Path:
    """Give the export of a size, generated if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{size:g}m.sqlite"
    if not path.exists():
        print(f"generating {path.name} ...", flush=True)
        script = Path(__file__).with_name("generate.py")
        kernels = str(round(size * 1_000_000))
        run_child([sys.executable, str(script), str(path), "--kernels", kernels])
    return path


def _report(nsys: str) -> str:
    """Give the name this nsys has for the kernel summary."""
    version = re.search(r"version (\d{4})", run_child([nsys, "--version"]).output)
    return "gpukernsum" if version and int(version[1]) < 2023 else "cuda_gpu_kern_sum"


def _take(bench: Bench, runs: int) -> Taken:
    """Measure everything in turns, beginning with another command each time."""
    warm(bench.path)
    taken = Taken(cold=bench.audit(), reads={name: [] for name in CONTENDERS})

    def read(name: str) -> Callable[[], None]:
        return lambda: taken.reads[name].append(bench.read(name))

    turns = [read(name) for name in CONTENDERS]
    turns.append(lambda: taken.audits.append(bench.audit()))
    if bench.nsys:
        turns.append(lambda: taken.stats.append(bench.nsys_stats()))
    for run in range(runs):
        first = run % len(turns)
        for turn in turns[first:] + turns[:first]:
            turn()
    return taken


def _report_size(path: Path, source: str, taken: Taken, *, limited: bool) -> bool:
    """Print the figures of one file; say whether the limits are kept."""
    reads = [summarize(name, measurements) for name, measurements in taken.reads.items()]
    rows = reads[0].rows
    print(f"\n{path.name}: {path.stat().st_size / 1e6:.0f} MB, {rows:,} rows read")
    print(f"columns of {source}; medians of {len(taken.audits)}")
    print(f"{'':<36}{'seconds':>9}{'peak MB':>9}")
    for read in reads:
        _print_figures(f"bare read, {read.name}", read.process_seconds, read.peak_bytes)
    _print_figures("audit, first run", taken.cold.seconds, taken.cold.peak_bytes)
    _print_figures("audit", median_seconds(taken.audits), median_peak(taken.audits))
    if taken.stats:
        _print_figures("nsys stats", median_seconds(taken.stats), median_peak(taken.stats))
    return _print_verdicts(taken, quickest(reads), rows, limited=limited)


def _print_figures(label: str, seconds: float, peak_bytes: float) -> None:
    """Print one line of the table."""
    print(f"{label:<36}{seconds:>9.2f}{peak_bytes / 1e6:>9.0f}")


def _print_verdicts(taken: Taken, bare: Summary, rows: int, *, limited: bool) -> bool:
    """Print ratios beside their limits; the goal does not count."""
    seconds = median_seconds(taken.audits)
    peak = max(child.peak_bytes for child in taken.audits)
    peak_limit = PEAK_LIMIT_PER_ROW * rows + PEAK_LIMIT_FIXED
    ratio = seconds / bare.process_seconds
    in_time = ratio <= TIME_LIMIT or not limited
    print(
        f"audit / bare read ({bare.name}): {ratio:.2f}, "
        f"{f'limit {TIME_LIMIT}: {_verdict(in_time)}' if limited else 'no limit at this size'}; "
        f"over its reading alone, {bare.read_seconds:.2f} s: {seconds / bare.read_seconds:.2f}"
    )
    print(
        f"largest peak of an audit: {peak / 1e6:.0f} MB, limit {peak_limit / 1e6:.0f} MB: "
        f"{_verdict(peak <= peak_limit)}"
    )
    if taken.stats:
        to_nsys = seconds / median_seconds(taken.stats)
        met = "met" if to_nsys <= NSYS_GOAL else "missed"
        print(f"audit / nsys stats: {to_nsys:.2f}, goal {NSYS_GOAL}: {met}")
    else:
        print("audit / nsys stats: not measured, no nsys (--nsys PATH)")
    return in_time and peak <= peak_limit


def _verdict(within: bool) -> str:
    """Say whether a limit is kept."""
    return "ok" if within else "EXCEEDED"


if __name__ == "__main__":
    sys.exit(main())
