"""Hold the start of `overlapaudit --help` against that of a bare typer program.

    python benchmarks/help_startup.py [--runs 20]

The two take turns. Exit status: 0 within the limit, 1 over it, 2 something could not run.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from child_process import ChildFailed, median_seconds, run_child

LIMIT = 1.3
_BARE_PROGRAM = '''"""A typer program of two commands that do nothing."""

import typer

app = typer.Typer()


@app.command()
def one(path: str, force: bool = False) -> None:
    """Do one thing."""


@app.command()
def two(path: str, force: bool = False) -> None:
    """Do another thing."""


app()
'''


def main() -> int:
    """Read the command line, measure and print the ratio."""
    parser = argparse.ArgumentParser(description="Measure how fast --help comes.")
    parser.add_argument("--runs", type=int, choices=range(1, 1000), default=20, metavar="N")
    parser.add_argument(
        "--command", type=shlex.split, default=["overlapaudit"],
        help="what runs in place of overlapaudit",
    )  # fmt: skip
    arguments = parser.parse_args()
    try:
        ours, bare = _measure([*arguments.command, "--help"], arguments.runs)
    except ChildFailed as error:
        print(f"help_startup.py: {error}", file=sys.stderr)
        return 2
    print(f"{shlex.join(arguments.command)} --help: {ours:.3f} s, median of {arguments.runs}")
    print(f"bare typer program --help: {bare:.3f} s")
    print(
        f"ratio: {ours / bare:.2f}, limit {LIMIT}: {'ok' if ours / bare <= LIMIT else 'EXCEEDED'}"
    )
    return 0 if ours / bare <= LIMIT else 1


def _measure(command: list[str], runs: int) -> tuple[float, float]:
    """Give the median seconds of the command and of the bare program, after one run of each."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bare.py"
        program.write_text(_BARE_PROGRAM, encoding="utf-8")
        commands = [command, [sys.executable, str(program), "--help"]]
        for one in commands:
            run_child(one)
        taken = [[run_child(one) for one in commands] for _ in range(runs)]
    ours, bare = zip(*taken, strict=True)
    return median_seconds(ours), median_seconds(bare)


if __name__ == "__main__":
    sys.exit(main())
