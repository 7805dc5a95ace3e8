"""What a marker costs, as a multiple of calling an empty function.

    python benchmarks/markers.py [--rounds 15] [--nsys PATH]

Each column is a fresh process. "no profiler" is an engine that runs by itself. "level off" and
"level on" act as if a profiler listened, so that what is measured is our own code and NVTX' way to
nowhere; "under nsys" has a real one. Exit status: 0 within the limits, 1 over one, 2 something
could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from child_process import ChildFailed, run_child

LOOPS = 20_000
EMPTY = "empty()"
# What is measured, and how many empty calls it may cost without a profiler and with its level off.
STATEMENTS: dict[str, tuple[str, float, float]] = {
    "decorated function": ("decorated()", 1.3, 10),
    "with, marker made before": ("with made: pass", 8, 12),
    "with layer(phase, index)": ('with layer("attn", 3): pass', 20, 30),
    "with iteration(..., tokens=)": ('with iteration("step", n, tokens=512): pass', 30, 45),
    "mark(...)": ('mark("cache", "lookup", 3)', 14, 20),
    "request(id): start and end": ('request("a").start("decode"); request("a").end()', 35, 35),
    "awaiting a decorated coroutine": ("drive(coroutine())", 20, 40),
}
STATES = ("no profiler", "level off", "level on", "under nsys")


def main() -> int:
    """Read the command line, measure each state and print the table."""
    parser = argparse.ArgumentParser(description="Measure what markers cost.")
    parser.add_argument("--rounds", type=int, choices=range(1, 1000), default=15, metavar="N")
    parser.add_argument("--nsys", type=Path, help="an nsys program, for the last column")
    parser.add_argument("--child", choices=STATES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_measure(arguments.child, arguments.rounds)))
        return 0
    try:
        states = STATES if arguments.nsys else STATES[:-1]
        found = {state: _in_child(state, arguments.rounds, arguments.nsys) for state in states}
    except ChildFailed as error:
        print(f"markers.py: {error}", file=sys.stderr)
        return 2
    return _report(found)


def _report(found: dict[str, dict[str, float]]) -> int:
    print(f"multiples of an empty call ({found['no profiler'][EMPTY]:.0f} ns here)")
    print(f"{'':<32}" + "".join(f"{state:>14}" for state in found))
    exceeded = False
    for name, (_, *limits) in STATEMENTS.items():
        cells = [f"{found[state][name]:.1f}" for state in found]
        over = [found[state][name] > limit for state, limit in zip(STATES, limits, strict=False)]
        exceeded |= any(over)
        verdict = "  EXCEEDED" if any(over) else ""
        print(f"{name:<32}" + "".join(f"{cell:>14}" for cell in cells) + verdict)
    return int(exceeded)


def _in_child(state: str, rounds: int, nsys: Path | None) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", state, "--rounds", str(rounds)]
    if state != "under nsys":
        return dict(json.loads(run_child(command).output))
    with tempfile.TemporaryDirectory() as folder:
        # The recording holds the environment, so the program starts with next to none.
        recorded = [
            "env", "-i", f"PATH={os.environ['PATH']}", f"HOME={folder}", "LANG=C.UTF-8",
            f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}",
            str(nsys), "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none",
            f"--output={folder}/run", *command,
        ]  # fmt: skip
        lines = run_child(recorded).output.splitlines()
    return dict(json.loads(next(line for line in lines if line.startswith("{"))))


def _measure(state: str, rounds: int) -> dict[str, float]:
    """Give ns of an empty call, and of each statement the multiple of it."""
    names = _names(state)
    loops = {name: _loop(code, names) for name, (code, *_) in STATEMENTS.items()}
    loops[EMPTY] = _loop(EMPTY, names)
    nothing = _loop("pass", names)
    for loop in loops.values():
        loop(LOOPS // 10)
    ratios: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        bare = _seconds(nothing)
        empty = _seconds(loops[EMPTY]) - bare
        for name, loop in loops.items():
            ratios[name].append((_seconds(loop) - bare) / empty)
        ratios[EMPTY][-1] = empty / LOOPS * 1e9
    return {name: statistics.median(found) for name, found in ratios.items()}


def _names(state: str) -> dict[str, Any]:
    """Give what the statements use, in a process in this state."""
    import overlapaudit_nvtx as markers

    if state in ("level off", "level on"):
        from importlib import import_module

        from overlapaudit_nvtx.nvtx_tool import NvtxTool
        from overlapaudit_nvtx.switches import use_tool

        use_tool(NvtxTool(import_module("nvtx._lib.lib")))
    elif markers.listening() != (state == "under nsys"):
        raise SystemExit(f"a profiler listens, or not, otherwise than expected: {state}")
    if state == "level off":
        markers.disable()

    def empty() -> None:
        pass

    async def coroutine() -> None:
        pass

    def drive(running: Any) -> None:
        try:  # noqa: SIM105 - what it says instead costs more than what is measured here
            running.send(None)
        except StopIteration:
            pass

    return {
        "empty": empty,
        "decorated": markers.layer("attn", 3)(empty),
        "made": markers.layer("attn", 3),
        "coroutine": markers.layer("attn", 3)(coroutine),
        "drive": drive,
        "iteration": markers.iteration,
        "layer": markers.layer,
        "mark": markers.mark,
        "request": markers.request,
    }


def _loop(code: str, names: dict[str, Any]) -> Callable[[int], None]:
    made: dict[str, Any] = {}
    exec(f"def loop(times):\n    for n in range(times):\n        {code}\n", names, made)
    loop: Callable[[int], None] = made["loop"]
    return loop


def _seconds(loop: Callable[[int], None]) -> float:
    begun = time.perf_counter()
    loop(LOOPS)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
