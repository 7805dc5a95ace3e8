"""The GPU work of ranges is what NVIDIA's own projection says, but for its known faults."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copyfile

import pytest

from tests.oracle.nsys_kern_sum import version_of
from tests.oracle.nsys_projection import (
    ELSEWHERE,
    EQUAL,
    EQUAL_IDS,
    NEVER_CLOSED,
    ONE_LAUNCH,
    OPAQUE,
    STRADDLES,
    UNTIMED,
    Comparison,
    compare,
)
from tests.tracebuilder import (
    ApiCall,
    GraphLaunch,
    Kernel,
    Range,
    global_tid,
    graph_node_id,
    make_trace,
    mark,
    nvtx_domain,
    process_of,
)

pytestmark = pytest.mark.nsys

# The ranges that hold work, and how the work outside of all ranges compares.
RECORDED = {
    "a100_saxpy_mpi.2022.2": (5, EQUAL),
    "a100_serial_then_overlap.2023.4": (12, None),
    "a100_streamed_gpu_metrics.2024.2": (2, EQUAL),
    "h100x2_train_nccl_after.2026.2": (8_623, None),
    "h100x2_train_nccl_before.2026.2": (9_621, None),
    "h100x2_weight_load.2026.2": (3_242, None),
    "h200_fuser.2025.1": (37, EQUAL),
    "t4_cupy_power_iteration.2025.3": (742, EQUAL),
    "v100_graph_nodes_events.2023.4": (1_020, ONE_LAUNCH),  # a replay of 266 nodes
    "v100_graph_nodes_events.2024.2": (1_020, ONE_LAUNCH),
}


@pytest.mark.traces
@pytest.mark.parametrize("name", RECORDED)
def test_ranges_hold_what_nsys_projects(traces: Path, nsys: Path, name: str) -> None:
    with_work, outside = RECORDED[name]
    found = compared(nsys, traces / "nsys" / f"{name}.sqlite")
    assert (found.with_work, found.equal, dict(found.causes)) == (with_work, with_work, {})
    assert found.outside == (outside if version_of(nsys) >= (2023,) else None)


# The same traces with what does not occur in them: ranges that hold equal work, and causes.
CHANGED = {
    "t4_cupy_power_iteration.2025.3": (
        431,
        {
            ELSEWHERE: 102,
            STRADDLES: 92,
            UNTIMED: 62,
            f"{NEVER_CLOSED} + {UNTIMED}": 22,
        },
    ),
    "v100_graph_nodes_events.2023.4": (
        653,
        {
            ELSEWHERE: 134,
            STRADDLES: 90,
            UNTIMED: 24,
            NEVER_CLOSED: 10,
            f"{NEVER_CLOSED} + {UNTIMED}": 26,
        },
    ),
}


@pytest.mark.traces
@pytest.mark.parametrize("name", CHANGED)
def test_every_difference_has_its_causes(
    traces: Path, nsys: Path, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "changed.sqlite"
    copyfile(traces / "nsys" / f"{name}.sqlite", path)
    # The middle of the first call after the range began.
    within_a_call = """
        SELECT (call.start + call.end) / 2 FROM CUPTI_ACTIVITY_KIND_RUNTIME AS call
        WHERE call.globalTid = NVTX_EVENTS.globalTid AND call.start > NVTX_EVENTS.start
        ORDER BY call.start LIMIT 1
    """
    with closing(sqlite3.connect(path)) as database, database:
        for every, change in {
            5: f"end = coalesce(({within_a_call}), end)",
            7: "endGlobalTid = globalTid + 1",
            31: "end = NULL",
        }.items():
            ranges = f"eventType = 59 AND rowid % {every} = 0"
            database.execute(f"UPDATE NVTX_EVENTS SET {change} WHERE {ranges}")
        kernels = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 0, end = 0 WHERE rowid % 97 = 0"
        database.execute(kernels)
    found = compared(nsys, path)
    assert (found.equal, dict(found.causes)) == CHANGED[name]


def test_each_cause_alone(nsys: Path, tmp_path: Path) -> None:
    main, worker, other = global_tid(1000, 1000), global_tid(1000, 5), global_tid(1001, 1001)
    path = make_trace(
        tmp_path / "trace.sqlite",
        schema="2026.2",
        ranges=[
            nvtx_domain("engine", 3),
            mark("no range", 10),
            Range("equal to the next", 0, 100),
            Range("equal to the next", 0, 100),
            Range("of a domain", 0, 100, domain=3),
            Range("of another thread", 0, 100, thread=worker),
            Range("without work", 200, 300),
            Range("straddled", 1_000, 1_015),
            Range("ended elsewhere", 2_000, 2_100, range_id=1, end_thread=worker),
            Range("replay", 3_000, 3_100),
            Range("replay of nodes", 4_000, 4_100),
            Range("untimed", 5_000, 5_100),
            Range("never closed", 6_000, None),
            Range("last", 7_000, 7_100),
        ],
        kernels=[
            launched(10, main),
            launched(20, worker),
            launched(1_010, main),
            launched(2_010, main),
            Kernel(4_100, 4_200, correlation=90, graph_node=graph_node_id(1, 1)),
            Kernel(4_150, 4_300, correlation=90, graph_node=graph_node_id(1, 2)),
            launched(5_010, main),
            Kernel(0, 0, launch=ApiCall("cudaLaunchKernel_v7000", 5_030, 5_040)),
            launched(6_010, main),
            launched(8_000, main, correlation=91),
            launched(8_000, other, correlation=91),
            Kernel(9_000, 9_100, launch=None),
        ],
        graph_launches=[
            GraphLaunch(3_100, 3_200, launch=ApiCall("cudaGraphLaunch_v10000", 3_010, 3_020))
        ],
        api_calls=[ApiCall("cudaGraphLaunch_v10000", 4_010, 4_020, correlation=90)],
    )
    found = compared(nsys, path)
    assert (found.ranges, found.with_work, found.equal) == (12, 10, 4)
    alone = (STRADDLES, ELSEWHERE, OPAQUE, ONE_LAUNCH, UNTIMED, NEVER_CLOSED)
    assert found.causes == dict.fromkeys(alone, 1)
    if version_of(nsys) >= (2023,):
        # What NVIDIA left out of ranges is outside.
        assert found.outside == " + ".join([ELSEWHERE, NEVER_CLOSED, STRADDLES, EQUAL_IDS])


@pytest.mark.parametrize("seed", range(4))
def test_whatever_coincides(nsys: Path, tmp_path: Path, seed: int) -> None:
    """Few moments for many ranges and calls, so that starts and ends meet in all ways."""
    draw = random.Random(seed)
    threads = [global_tid(1000, 1000), global_tid(1000, 5), global_tid(1001, 1001)]
    session_end = 300 if seed % 2 else None

    def a_range(number: int) -> Range:
        start, thread = 100 + draw.randrange(100), draw.choice(threads)
        end = session_end if draw.random() < 0.05 else start + draw.randrange(30)
        if draw.random() < 0.5:
            return Range("pushed", start, end, thread=thread)
        elsewhere = draw.choice([None, None, thread + 1])
        return Range("started", start, end, thread=thread, range_id=number, end_thread=elsewhere)

    def replay() -> GraphLaunch:
        start = 100 + draw.randrange(100)
        call = ApiCall("cudaGraphLaunch_v10000", start, start + 1 + draw.randrange(5))
        return GraphLaunch(start + 50, start + 99, launch=call)

    path = make_trace(
        tmp_path / "trace.sqlite",
        schema="2026.2",
        ranges=[a_range(number) for number in range(300)],
        kernels=[
            launched(100 + draw.randrange(250), draw.choice(threads), 1 + draw.randrange(5))
            for _ in range(60)
        ],
        graph_launches=[replay() for _ in range(5)],
        duration_ns=session_end,
    )
    found = compared(nsys, path)
    assert found.equal >= 50
    assert {STRADDLES, ELSEWHERE, OPAQUE, NEVER_CLOSED} <= {*" + ".join(found.causes).split(" + ")}


def compared(nsys: Path, path: Path) -> Comparison:
    found = compare(nsys, path)
    assert found is not None, "this nsys makes no report of the trace"
    assert found.unexplained == []
    return found


def launched(
    start_ns: int, thread: int, lasts_ns: int = 10, correlation: int | None = None
) -> Kernel:
    """Give a kernel with its call, which begins at `start_ns`."""
    call = ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + lasts_ns, thread)
    process, begin = process_of(thread), start_ns + 100
    return Kernel(begin, begin + 50, process=process, correlation=correlation, launch=call)
