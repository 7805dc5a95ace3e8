"""Compare the kernels of the product with those of NVIDIA's own report, name by name.

Run `python -m tests.oracle.nsys_kern_sum --nsys PATH FILE...`. A trace that this nsys cannot
report on is called refused, not equal. Exits with 1 if something differs or nothing was compared.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import polars as pl

import overlapaudit as oa

LIMIT_S = 300  # an old nsys may take half a minute for a trace
COLUMNS = ("Instances", "Total Time (ns)", "Min (ns)", "Max (ns)")
LAYOUT = "{:<48} {:>6} {:>10} {:>16}  {}"


class KernelSum(NamedTuple):
    """All kernels of one name (ns)."""

    instances: int
    total: int
    shortest: int
    longest: int

    def __or__(self, other: KernelSum) -> KernelSum:
        return KernelSum(
            self.instances + other.instances,
            self.total + other.total,
            min(self.shortest, other.shortest),
            max(self.longest, other.longest),
        )


Sums = dict[str, KernelSum]


def sums_of_audit(path: Path) -> Sums:
    """Sum the product's operations by kernel name."""
    duration = pl.col("end_ns") - pl.col("start_ns")
    with oa.open_trace(path) as trace:
        kernels = trace.operations.filter(pl.col("kind") == "kernel")
        rows = kernels.group_by(pl.col("name").cast(pl.String)).agg(
            pl.len(), duration.sum().alias("total"), duration.min().alias("shortest"),
            duration.max().alias("longest"),
        )  # fmt: skip
    return {name: KernelSum(*figures) for name, *figures in rows.rows()}


def sums_of_nsys(nsys: Path, path: Path) -> Sums | None:
    """Let nsys sum the kernels by name; None where it makes no report of this trace."""
    report = "gpukernsum" if version_of(nsys) < (2023,) else "cuda_gpu_kern_sum"
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copy(path, folder))  # nsys may write beside its input
        copy.chmod(0o600)
        options = ["--force-export=false", "--report", report, "--format", "csv"]
        _run(nsys, ["stats", *options, "-o", f"{folder}/out", str(copy)], folder)
        table = Path(folder, f"out_{report}.csv")
        if not table.exists() or table.stat().st_size == 0:
            return None
        with table.open(encoding="utf-8", errors="replace", newline="") as file:
            return _by_name(csv.DictReader(file))


def version_of(nsys: Path) -> tuple[int, ...]:
    """Give the version of an nsys as numbers."""
    with TemporaryDirectory() as folder:
        said = _run(nsys, ["--version"], folder)
    found = re.search(r"\d+(?:\.\d+)+", said)
    if found is None:
        raise ValueError(f"{nsys} gives no version: {said!r}")
    return tuple(int(part) for part in found[0].split("."))


def _run(nsys: Path, arguments: list[str], home: str) -> str:
    # Nothing of this environment: what nsys sees of it may end up in what it writes.
    environment = {"PATH": "/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8"}
    done = subprocess.run(
        [nsys.absolute(), *arguments],
        env=environment, cwd=home, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return done.stdout


def _by_name(rows: csv.DictReader[str]) -> Sums:
    sums: Sums = {}
    for row in rows:
        # 2022.4 has a row for each name, grid and block.
        one = KernelSum(*(int(row[key]) for key in COLUMNS))
        sums[row["Name"]] = sums[row["Name"]] | one if row["Name"] in sums else one
    return sums


def main(arguments: list[str]) -> int:
    """Print a table of the traces, and what differs in them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsys", type=Path, required=True, metavar="PATH")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    options = parser.parse_args(arguments)

    print("nsys " + ".".join(map(str, version_of(options.nsys))))
    print(LAYOUT.format("file", "names", "instances", "total ns", "equal?"))
    verdicts = [_compare(options.nsys, path) for path in options.files]
    return 0 if "yes" in verdicts and "NO" not in verdicts else 1


def _compare(nsys: Path, path: Path) -> str:
    ours, theirs = sums_of_audit(path), sums_of_nsys(nsys, path)
    verdict = "refused" if theirs is None else "yes" if ours == theirs else "NO"
    instances = sum(one.instances for one in ours.values())
    total = sum(one.total for one in ours.values())
    print(LAYOUT.format(path.name, len(ours), instances, total, verdict), flush=True)
    if theirs is not None:
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                print(f"    {ascii(name)[:60]}: {ours.get(name)}, nsys {theirs.get(name)}")
    return verdict


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
