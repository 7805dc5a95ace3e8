"""Exact figures of an nsys SQLite export, worked out in the plainest way there is.

No code of the product is used, so that agreement means something: the standard library, one list
of work a device, and one walk over the instants at which anything starts or ends.

Run `python -m tests.oracle.naive FILE...` to print the figures as JSON.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RULES_FILE = ROOT / "overlapaudit" / "classify" / "data" / "kernel_classes.json"

THREAD_BITS = 0xFFFFFF  # a globalTid is the globalPid with the thread in its low 24 bits

# copyKind of nsys: arrays are device memory, and UVM migrations are copies like any other.
DIRECTIONS = {
    1: "h2d", 2: "d2h", 3: "h2d", 4: "d2h", 5: "d2d", 6: "d2d", 7: "d2d", 8: "d2d", 9: "h2h",
    10: "p2p", 11: "h2d", 12: "d2h", 13: "d2d",
}  # fmt: skip

LANE_OF_DIRECTION = {"h2d": "copy", "d2h": "copy", "d2d": "copy", "h2h": "copy", "p2p": "comm"}


class Work(NamedTuple):
    """One row of a GPU table."""

    process: int
    device: int
    stream: tuple[int, int]
    start: int
    end: int
    correlation: int | None
    lane: str
    direction: str | None

    @property
    def has_time(self) -> bool:
        """Whether the profiler saw it run: start = end = 0 means that it did not."""
        return (self.start, self.end) != (0, 0)


def figures(path: Path, window: tuple[int, int] | None = None) -> dict[str, Any]:
    """Give what a trace holds, in the form of the expected figures.

    Args:
        path: A SQLite export of nsys.
        window: Start and end in ns, to which the devices are clipped. The numbers of operations
            are those of the whole trace.
    """
    work = read_work(path)
    with _opened(path) as database:
        calls = _read_calls(database)
    by_device: dict[tuple[int, int], list[Work]] = defaultdict(list)
    for one in work:
        if one.has_time:
            by_device[one.process, one.device].append(one)
    return {
        "file": Path(path).name,
        "operations": len(work),
        "operations_with_launch": sum((one.process, one.correlation) in calls for one in work),
        "devices": [
            {"process": process, "device": device, **_device(by_device[process, device], window)}
            for process, device in sorted(by_device)
        ],
    }


def read_work(path: Path) -> list[Work]:
    """Give every row of the GPU tables."""
    with _opened(path) as database:
        return list(_read_work(database))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    uri = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield database


def _read_work(database: sqlite3.Connection) -> Iterator[Work]:
    tables = _tables(database)
    where = "globalPid, deviceId, contextId, streamId, start, end, correlationId"
    if "CUPTI_ACTIVITY_KIND_KERNEL" in tables:
        lane_of_name = _kernel_lanes(database)
        for *row, name in database.execute(
            f"SELECT {where}, demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL"
        ):
            yield _work(row, lane_of_name[name], None)
    if "CUPTI_ACTIVITY_KIND_MEMCPY" in tables:
        for *row, kind in database.execute(
            f"SELECT {where}, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY"
        ):
            direction = DIRECTIONS.get(kind)
            yield _work(row, "comm" if direction == "p2p" else "copy", direction)
    if "CUPTI_ACTIVITY_KIND_MEMSET" in tables:
        for row in database.execute(f"SELECT {where} FROM CUPTI_ACTIVITY_KIND_MEMSET"):
            yield _work(row, "memset", None)
    if "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in tables:
        for row in database.execute(f"SELECT {where} FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"):
            yield _work(row, "graph", None)


def _tables(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def _work(row: Iterable[Any], lane: str, direction: str | None) -> Work:
    process, device, context, stream, start, end, correlation = row
    return Work(process, device, (context, stream), start, end, correlation, lane, direction)


def _kernel_lanes(database: sqlite3.Connection) -> dict[int, str]:
    rules = json.loads(RULES_FILE.read_text())["rules"]
    lanes = {}
    for name_id, name in database.execute(
        "SELECT id, value FROM StringIds"
        " WHERE id IN (SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL)"
    ):
        name = name.removeprefix("void ")
        kernel_class = next((one for one, pattern in rules if re.search(pattern, name)), "")
        lanes[name_id] = "comm" if kernel_class.startswith("comm") else "compute"
    return lanes


def _read_calls(database: sqlite3.Connection) -> set[tuple[int, int]]:
    """Give (process, correlation id) of every recorded call: ids alone repeat in each process.

    Class 0 is a call of the runtime, 1 of the driver. The table holds backtraces of calls too.
    """
    if "CUPTI_ACTIVITY_KIND_RUNTIME" not in _tables(database):
        return set()
    return {
        (thread & ~THREAD_BITS, correlation)
        for thread, correlation in database.execute(
            "SELECT globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
            " WHERE correlationId IS NOT NULL AND eventClass IN (0, 1)"
        )
    }


def _device(work: list[Work], window: tuple[int, int] | None) -> dict[str, Any]:
    begin = min(one.start for one in work)
    finish = max(one.end for one in work)
    if window is not None:
        begin, finish = max(begin, window[0]), min(finish, window[1])
        finish = max(begin, finish)  # no GPU work in this window

    length = finish - begin
    busy = 0
    alone: dict[str, int] = defaultdict(int)
    both: dict[str, int] = defaultdict(int)
    for duration, running in _stretches(work, begin, finish):
        busy += duration
        streams_of: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for one in running:
            streams_of[one.lane].add(one.stream)
            if one.direction:
                streams_of[one.direction].add(one.stream)
        for a in streams_of:
            alone[a] += duration
            if len(streams_of[a]) >= 2 and _is_pair(a, a):
                both[f"{a}&{a}"] += duration
            for b in streams_of:
                if a < b and _is_pair(a, b):
                    both[f"{a}&{b}"] += duration

    return {
        "window_ns": length,
        "busy_ns": busy,
        "idle_ns": length - busy,
        "lanes": {name: ns for name, ns in alone.items() if name not in LANE_OF_DIRECTION},
        "copies": {name: ns for name, ns in alone.items() if name in LANE_OF_DIRECTION},
        "overlap": dict(both),
    }


def _is_pair(a: str, b: str) -> bool:
    """Tell whether the overlap of two lanes or directions is asked for.

    Not that of a lane with a direction inside it, nor that of host-to-host copies.
    """
    return "h2h" not in (a, b) and LANE_OF_DIRECTION.get(a) != b and LANE_OF_DIRECTION.get(b) != a


def _stretches(work: list[Work], begin: int, finish: int) -> Iterator[tuple[int, list[Work]]]:
    """Yield how long each set of work ran at once, between begin and finish, idle left out."""
    starting: dict[int, list[int]] = defaultdict(list)
    ending: dict[int, list[int]] = defaultdict(list)
    for index, one in enumerate(work):
        start, end = max(one.start, begin), min(one.end, finish)
        if start < end:
            starting[start].append(index)
            ending[end].append(index)

    running: set[int] = set()
    instants = sorted({*starting, *ending})
    for now, after in pairwise(instants):
        running.difference_update(ending[now])
        running.update(starting[now])
        if running:
            yield after - now, [work[index] for index in running]


def main(paths: list[str]) -> None:
    """Print the figures of some files as one JSON list."""
    print(json.dumps([figures(Path(path)) for path in paths], indent=1, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
