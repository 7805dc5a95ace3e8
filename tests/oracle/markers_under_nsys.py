"""Record the guide's complete program with real profilers, and hold what they saw against it.

Run `python -m tests.oracle.markers_under_nsys --nsys PATH... [--nvtx FOLDER...]`: each nsys with
each nvtx, where a folder is what `pip install --target FOLDER nvtx==VERSION` filled; without one
the installed nvtx is used. Prints a table. Exits with 1 if anything differs or could not run.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import overlapaudit as oa
from tests.guide import Written, everything, program

ROOT = Path(__file__).parents[2]
LIMIT_S = 300
CATEGORY = 33  # nsys' event type of a category's name
LAYOUT = "{:<44} {:<10} {:>8} {:>8}  {}"


class NotRecorded(Exception):
    """A profiler that made no export."""


def record(
    nsys: Path, code: str, folder: Path, nvtx: Path | None = None, levels: str | None = None
) -> Path:
    """Run Python code under nsys and give the export.

    The environment is empty but for what is needed: an export holds all of it.

    Raises:
        NotRecorded: there is no export.
    """
    script = folder / "program.py"
    script.write_text(code, encoding="utf-8")
    paths = [nvtx, ROOT / "instrumentation"] if nvtx else [ROOT / "instrumentation"]
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(str(path) for path in paths),
    }
    if levels is not None:
        environment["OVERLAPAUDIT_NVTX"] = levels
    done = subprocess.run(
        [
            str(nsys), "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none",
            "--export=sqlite", "--force-overwrite=true", "--output=run", sys.executable, script,
        ],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    export = folder / "run.sqlite"
    if done.returncode or not export.is_file():
        raise NotRecorded((done.stdout + done.stderr)[-2000:])
    return export


def seen(export: Path) -> Counter[Written]:
    """Give our ranges and marks as the analyser reads them."""
    with oa.open_trace(export) as trace:
        ours = trace.ranges.filter(pl.col("engine") == "overlapaudit")
        texts = [pl.col(name).cast(pl.String) for name in ("kind", "level", "phase")]
        return Counter(Written(*row) for row in ours.select(*texts, "key", "facts").rows())


def ended_elsewhere(export: Path) -> Counter[str]:
    """Count by phase the ranges that ended on another thread than they began."""
    with oa.open_trace(export) as trace:
        crossed = trace.ranges.filter(pl.col("thread") != pl.col("end_thread"))
        return Counter(crossed["phase"].cast(pl.String).to_list())


def categories(export: Path) -> dict[str, set[str]]:
    """Give for each level the names of the categories that its ranges have in the export."""
    found: dict[str, set[str]] = {}
    with closing(sqlite3.connect(export)) as database:
        rows = database.execute(
            "WITH texts AS (SELECT n.*, coalesce(s.value, n.text) AS said FROM NVTX_EVENTS n"
            " LEFT JOIN StringIds s ON s.id = n.textId)"
            " SELECT substr(r.said, 1, instr(r.said, '.') - 1), c.said FROM texts r JOIN texts c"
            " ON c.eventType = ? AND c.category = r.category AND c.domainId = r.domainId"
            " WHERE r.eventType IN (34, 59, 60)",
            (CATEGORY,),
        )
        for level, category in rows:
            found.setdefault(level, set()).add(category)
    return found


def main() -> int:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description="Hold the markers against real profilers.")
    parser.add_argument("--nsys", type=Path, nargs="+", required=True)
    parser.add_argument("--nvtx", type=Path, nargs="*", default=[])
    arguments = parser.parse_args()
    wanted = everything()
    print(LAYOUT.format("nsys", "nvtx", "written", "seen", ""))
    failed = False
    for nsys in arguments.nsys:
        for nvtx in arguments.nvtx or [None]:
            with TemporaryDirectory() as folder:
                try:
                    got = seen(record(nsys, program("everything"), Path(folder), nvtx))
                    verdict = "equal" if got == wanted else "DIFFERENT"
                except NotRecorded as error:
                    got, verdict = Counter(), f"NOT RECORDED: {str(error)[-200:]}"
            failed |= got != wanted
            name = "installed" if nvtx is None else nvtx.name
            print(
                LAYOUT.format(str(nsys)[-44:], name, wanted.total(), got.total(), verdict),
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
