"""Iterations: windows of an engine's steps, costs weighed in them, and audits by them alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overlapaudit as oa
from overlapaudit import intervals
from overlapaudit.analysis.price import Scale, weigh
from overlapaudit.model.errors import UsageError
from overlapaudit.model.findings import WindowRef
from overlapaudit.model.kinds import Severity
from overlapaudit.model.tables import RANGES
from overlapaudit.spans.iterations import Iterations, iterations
from overlapaudit.spans.launches import by_launch
from tests.cli import conftest
from tests.cli.conftest import Run
from tests.support import audit_of, codes, finding
from tests.tracebuilder import (
    DEFAULT_PROCESS,
    DEFAULT_THREAD,
    ApiCall,
    Copy,
    Kernel,
    Range,
    Sync,
    global_pid,
    global_tid,
    main_thread,
    make_trace,
    mark,
    nvtx_domain,
)

run = conftest.run

DOMAIN = 1
OURS = nvtx_domain("overlapaudit", DOMAIN)
WORKER = global_tid(1000, 7)
OTHER = global_pid(77)

Found = list[tuple[int, int, int]]


def ours(
    phase: str, start_ns: int, end_ns: int | None, number: int | None = None, **more: Any
) -> Range:
    return Range(f"iteration.{phase}", start_ns, end_ns, domain=DOMAIN, payload=number, **more)


def kernel(launched_ns: int, start_ns: int, end_ns: int, **more: Any) -> Kernel:
    thread = more.pop("thread", None)
    call = ApiCall("cudaLaunchKernel_v7000", launched_ns, launched_ns + 5, thread)
    return Kernel(start_ns, end_ns, launch=call, **more)


@pytest.fixture
def windows(tmp_path: Path) -> Any:
    """Give the (number, start, end) of the windows of each process of a trace like this."""

    def found(**content: Any) -> dict[int, Found]:
        # A range that ends with the session was open then.
        content = {"duration_ns": 1_000, **content}
        with oa.open_trace(make_trace(tmp_path / "trace.sqlite", **content)) as trace:
            launched = by_launch(trace.operations, trace.api_calls)
            return {process: rows_of(one) for process, one in iterations(trace, launched).items()}

    return found


def rows_of(found: Iterations) -> Found:
    columns = (found.id.tolist(), found.start_ns.tolist(), found.end_ns.tolist())
    return list(zip(*columns, strict=True))


# --- windows by hand ---


def test_windows_follow_the_gpu_and_touch(windows: Any) -> None:
    found = windows(
        ranges=[OURS, ours("step", 100, 200, 41), ours("step", 200, 300, 42)],
        kernels=[kernel(110, 150, 237), kernel(210, 240, 391)],
    )
    assert found == {DEFAULT_PROCESS: [(41, 100, 237), (42, 237, 391)]}


def test_work_that_is_launched_ahead_belongs_to_its_step(windows: Any) -> None:
    # The host has closed all steps before the first one's work ends.
    found = windows(
        ranges=[OURS, *(ours("step", 100 + 20 * n, 120 + 20 * n, n) for n in range(3))],
        kernels=[kernel(102 + 20 * n, 500 + 100 * n, 590 + 100 * n) for n in range(3)],
    )
    assert found == {DEFAULT_PROCESS: [(0, 100, 590), (1, 590, 690), (2, 690, 790)]}


def test_a_step_that_ended_before_an_earlier_one_adds_no_window(windows: Any) -> None:
    found = windows(
        ranges=[OURS, *(ours("step", 100 * n, 100 * n + 50, n) for n in (1, 2, 3, 4))],
        kernels=[
            kernel(110, 120, 800),
            kernel(210, 220, 700, stream=9),
            kernel(310, 320, 800, stream=10),
            kernel(410, 420, 801, stream=11),
        ],
    )
    assert found == {DEFAULT_PROCESS: [(1, 100, 800), (4, 800, 801)]}


def test_a_step_without_gpu_work_has_no_window(windows: Any) -> None:
    kernels = [kernel(210, 220, 290), kernel(410, 420, 490)]
    found = windows(
        ranges=[OURS, *(ours("step", 100 * n, 100 * n + 50, n) for n in (1, 2, 3, 4))],
        kernels=kernels,
    )
    # The first window starts at the first step that worked, the others where one ended.
    assert found == {DEFAULT_PROCESS: [(2, 200, 290), (4, 290, 490)]}


def test_a_step_holds_what_is_launched_from_its_start_to_before_its_end(windows: Any) -> None:
    steps = [OURS, ours("step", 100, 200, 1), ours("step", 300, 400, 2)]
    found = windows(
        ranges=steps,
        kernels=[
            kernel(99, 110, 115),
            kernel(100, 120, 130),
            kernel(200, 210, 999),
            kernel(399, 410, 420, stream=9),
        ],
    )
    assert found == {DEFAULT_PROCESS: [(1, 100, 130), (2, 130, 420)]}


def test_phases_decide_where_there_are_any(windows: Any) -> None:
    step = [OURS, ours("step", 100, 200, 1)]
    work: dict[str, Any] = {
        "kernels": [kernel(120, 130, 140), kernel(150, 151, 160), kernel(190, 300, 310)],
        "copies": [
            Copy(400, 450, "d2h", launch=ApiCall("cudaMemcpyAsync_v3020", 170, 171), stream=9)
        ],
    }
    model, sample = ours("model", 118, 125, 1), ours("sample", 149, 155, 1)
    assert windows(ranges=step, **work) == {DEFAULT_PROCESS: [(1, 100, 450)]}
    assert windows(ranges=[*step, model], **work) == {DEFAULT_PROCESS: [(1, 100, 140)]}
    assert windows(ranges=[*step, model, sample], **work) == {DEFAULT_PROCESS: [(1, 100, 160)]}
    # Other phases do not make the end: the result is copied while the next step runs.
    others = [ours("result_d2h", 165, 175, 1), ours("schedule", 101, 117, 1)]
    assert windows(ranges=[*step, *others], **work) == {DEFAULT_PROCESS: [(1, 100, 450)]}
    assert windows(ranges=[*step, *others, model], **work) == {DEFAULT_PROCESS: [(1, 100, 140)]}


def test_each_step_has_phases_or_not_for_itself(windows: Any) -> None:
    found = windows(
        ranges=[
            OURS, ours("step", 100, 200, 1), ours("model", 110, 120, 1), ours("step", 200, 300, 2),
        ],
        kernels=[kernel(111, 130, 140), kernel(150, 160, 170), kernel(250, 260, 270)],
    )  # fmt: skip
    assert found == {DEFAULT_PROCESS: [(1, 100, 140), (2, 140, 270)]}


def test_a_phase_on_another_thread_belongs_to_the_step_of_its_number(windows: Any) -> None:
    ranges = [
        OURS,
        *(ours("step", 100 * n, 100 * n + 50, n) for n in (1, 2)),
        *(ours("model", 100 * n + 60, 100 * n + 70, n, thread=WORKER) for n in (1, 2)),
    ]
    kernels = [kernel(100 * n + 65, 100 * n + 80, 100 * n + 88, thread=WORKER) for n in (1, 2)]
    assert windows(ranges=ranges, kernels=kernels) == {
        DEFAULT_PROCESS: [(1, 100, 188), (2, 188, 288)]
    }
    # A number that two steps have tells nothing, nor does one that none has.
    for number in (1, None, 7):
        changed = [*ranges[:2], ours("step", 200, 250, 1), ours("model", 160, 170, number)]
        changed[3] = replace(changed[3], thread=WORKER)
        assert windows(ranges=changed, kernels=kernels) == {}


def test_a_phase_inside_a_step_belongs_to_it_whatever_its_number(windows: Any) -> None:
    found = windows(
        ranges=[
            OURS, ours("step", 100, 200, 1), ours("model", 110, 120, 2),
            ours("step", 200, 300, 2), ours("model", 210, 220, 1),
        ],
        kernels=[kernel(111, 130, 140), kernel(211, 250, 260)],
    )  # fmt: skip
    assert found == {DEFAULT_PROCESS: [(1, 100, 140), (2, 140, 260)]}


@pytest.mark.parametrize("numbers", [(5, 5, 6), (None, 8, 9), (None, None, None)])
def test_numbers_that_tell_nothing_apart_are_replaced(
    windows: Any, numbers: Sequence[int | None]
) -> None:
    found = windows(
        ranges=[OURS, *(ours("step", 100 * n, 100 * n + 50, k) for n, k in enumerate(numbers, 1))],
        kernels=[kernel(100 * n + 10, 100 * n + 20, 100 * n + 90) for n in (1, 2, 3)],
    )
    assert found == {DEFAULT_PROCESS: [(0, 100, 190), (1, 190, 290), (2, 290, 390)]}


def test_a_step_inside_a_step_is_part_of_it(windows: Any) -> None:
    found = windows(
        ranges=[
            OURS, ours("step", 100, 200, 1), ours("step", 110, 150, 7), ours("step", 150, 160, 8),
            ours("step", 200, 300, 2),
        ],
        kernels=[kernel(120, 130, 140), kernel(155, 160, 170), kernel(210, 220, 230)],
    )  # fmt: skip
    assert found == {DEFAULT_PROCESS: [(1, 100, 170), (2, 170, 230)]}


def test_a_step_that_was_not_closed_has_no_window(windows: Any) -> None:
    kernels = [kernel(110, 120, 190), kernel(210, 220, 290)]
    for end_ns in (None, 1_000):
        last = ours("step", 200, end_ns, 2)
        found = windows(ranges=[OURS, ours("step", 100, 200, 1), last], kernels=kernels)
        assert found == {DEFAULT_PROCESS: [(1, 100, 190)]}
        assert windows(ranges=[OURS, last], kernels=kernels) == {}


def test_marks_and_ranges_of_other_levels_make_no_iterations(windows: Any) -> None:
    content = {"kernels": [kernel(110, 120, 190)]}
    ranges = [OURS, mark("iteration.step", 100, domain=DOMAIN), ours("model", 105, 150, 1)]
    assert windows(ranges=ranges, **content) == {}
    layer = Range("layer.attn", 100, 200, domain=DOMAIN, payload=0)
    assert windows(ranges=[OURS, layer, Range("iteration.step", 100, 200)], **content) == {}


def test_processes_have_iterations_of_their_own(windows: Any) -> None:
    theirs = main_thread(OTHER)
    found = windows(
        ranges=[
            OURS,
            nvtx_domain("overlapaudit", DOMAIN, process=OTHER),
            ours("step", 100, 200, 1),
            ours("step", 50, 300, 1, thread=theirs),
            ours("step", 300, 400, 2, thread=theirs),
        ],
        kernels=[
            kernel(110, 120, 800),
            kernel(60, 70, 140, process=OTHER),
            kernel(310, 320, 350, process=OTHER),
        ],
    )
    assert found == {DEFAULT_PROCESS: [(1, 100, 800)], OTHER: [(1, 50, 140), (2, 140, 350)]}


VLLM = [
    Range("execute_context_1(5)_generation_2(2)", 100, 200),
    Range("gpu_model_runner: forward", 105, 120),
    Range("execute_context_0(0)_generation_3(3)", 200, 300),
    Range("execute_context_1(5)_generation_2(2)", 300, 400),
]
THREE = [kernel(110, 120, 150), kernel(180, 181, 220), kernel(210, 230, 280), kernel(310, 320, 390)]


def test_steps_of_other_engines(windows: Any) -> None:
    assert windows(ranges=VLLM, kernels=THREE) == {
        DEFAULT_PROCESS: [(0, 100, 150), (1, 150, 280), (2, 280, 390)]
    }
    sglang = [Range("step[DECODE bs=4]", 100, 200), Range("step[EXTEND bs=1 toks=5]", 200, 300)]
    assert windows(ranges=sglang, kernels=THREE) == {
        DEFAULT_PROCESS: [(0, 100, 220), (1, 220, 280)]
    }


def test_our_own_markers_go_before_those_of_other_engines(windows: Any) -> None:
    own = [OURS, ours("step", 90, 250, 30), ours("step", 250, 420, 31)]
    assert windows(ranges=[*VLLM, *own], kernels=THREE) == {
        DEFAULT_PROCESS: [(30, 90, 280), (31, 280, 390)]
    }
    # Without a step of ours the other engine's steps count, and only its phases.
    phase = [OURS, ours("sample", 305, 308, 1), ours("model", 309, 312, 1)]
    assert windows(ranges=[*VLLM, *phase], kernels=[*THREE, kernel(390, 395, 500)]) == {
        DEFAULT_PROCESS: [(0, 100, 150), (1, 150, 280), (2, 280, 500)]
    }


@pytest.mark.xfail(strict=True, reason="numbers count for pushed steps only")
def test_a_step_that_was_started_and_ended_has_phases_on_other_threads(windows: Any) -> None:
    found = windows(
        ranges=[
            OURS,
            *(ours("step", 100 * n, 100 * n + 50, n, range_id=n) for n in (1, 2)),
            *(ours("model", 100 * n + 10, 100 * n + 20, n, thread=WORKER) for n in (1, 2)),
        ],
        kernels=[kernel(100 * n + 15, 100 * n + 30, 100 * n + 88, thread=WORKER) for n in (1, 2)],
    )
    assert found == {DEFAULT_PROCESS: [(1, 100, 188), (2, 188, 288)]}


@pytest.mark.xfail(strict=True, reason="the step begun last takes the phases of all that are open")
def test_of_steps_that_overlap_the_number_of_the_phase_decides(windows: Any) -> None:
    found = windows(
        ranges=[
            OURS,
            ours("step", 100, 220, 1, range_id=1), ours("model", 110, 120, 1),
            ours("step", 200, 320, 2, range_id=2), ours("sample", 205, 210, 1),
            ours("model", 230, 240, 2),
        ],
        kernels=[kernel(112, 120, 150), kernel(206, 210, 270), kernel(231, 280, 300)],
    )  # fmt: skip
    assert found == {DEFAULT_PROCESS: [(1, 100, 270), (2, 270, 300)]}


# --- windows against brute force ---

LENGTH = 60
THREADS = (DEFAULT_THREAD, WORKER)


@dataclass(frozen=True)
class Drawn:
    """A pushed range of an engine."""

    phase: str
    thread: int
    start: int
    end: int
    key: int | None


@dataclass(frozen=True)
class Work:
    """A launch and when its work ran."""

    thread: int
    launched: int
    start: int
    end: int


@st.composite
def engines(draw: st.DrawFn) -> tuple[list[Drawn], list[Work]]:
    """Draw steps in order, some with steps or phases inside, phases elsewhere, and launches."""
    found: list[Drawn] = []
    at = 0
    while at < LENGTH - 2 and len(found) < 12 and draw(st.integers(0, 9)):
        start = draw(st.integers(at, LENGTH - 2))
        end = draw(st.integers(start + 1, LENGTH - 1))
        key = draw(st.one_of(st.none(), st.integers(0, 6)))
        found.append(Drawn("step", DEFAULT_THREAD, start, end, key))
        inner = start
        for phase in draw(st.lists(st.sampled_from(["model", "sample", "step"]), max_size=3)):
            if inner >= end:
                break
            begin = draw(st.integers(inner, end - 1))
            stop = draw(st.integers(begin + 1, end))
            number = draw(st.one_of(st.none(), st.integers(0, 6)))
            found.append(Drawn(phase, DEFAULT_THREAD, begin, stop, number))
            inner = stop
        at = end
    for begin in draw(st.lists(st.integers(0, LENGTH), max_size=3, unique=True)):
        number = draw(st.one_of(st.none(), st.integers(0, 6)))
        found.append(Drawn("model", WORKER, begin, begin + 1, number))
    work = [
        Work(thread, launched, launched + waits, launched + waits + lasts)
        for thread, launched, waits, lasts in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(THREADS), st.integers(0, LENGTH), st.integers(0, 30),
                    st.integers(1, 20),
                ),
                max_size=14,
            )
        )
    ]  # fmt: skip
    return draw(st.permutations(found)), work


def frames(ranges: Sequence[Drawn], work: Sequence[Work]) -> dict[int, Found]:
    """Ask for the windows of drawn ranges and work."""

    @dataclass(frozen=True)
    class Drawing:
        ranges: pl.DataFrame
        operations: pl.DataFrame

    rows = [
        {
            "kind": "push_pop", "level": "iteration", "phase": one.phase, "engine": "overlapaudit",
            "thread": one.thread, "domain_id": DOMAIN, "start_ns": one.start, "end_ns": one.end,
            "key": one.key,
        }
        for one in ranges
    ]  # fmt: skip
    operations = pl.DataFrame(
        [(one.start, one.end, number) for number, one in enumerate(work)],
        schema=dict.fromkeys(("start_ns", "end_ns", "api_row"), pl.Int64),
        orient="row",
    )
    calls = pl.DataFrame(
        [(one.thread, one.launched) for one in work],
        schema=dict.fromkeys(("thread", "start_ns"), pl.Int64),
        orient="row",
    )
    drawing = cast(oa.Trace, Drawing(pl.DataFrame(rows, schema=RANGES), operations))
    found = iterations(drawing, by_launch(operations, calls))
    return {process: rows_of(one) for process, one in found.items()}


def by_hand(ranges: Sequence[Drawn], work: Sequence[Work]) -> Found:
    """Do the same step by step."""

    def holds(outer: Drawn, inner: Drawn) -> bool:
        return (
            outer is not inner
            and outer.thread == inner.thread
            and outer.start <= inner.start < outer.end
        )

    steps = [one for one in ranges if one.phase == "step"]
    # A drawn step lies inside another only where it was drawn into it.
    steps = [
        one
        for one in steps
        if not any(
            holds(other, one) and (other.end - other.start, ranges.index(one))
            > (one.end - one.start, ranges.index(other))
            for other in steps
        )
    ]  # fmt: skip
    numbers = [one.key for one in steps]
    phases: dict[Drawn, list[Drawn]] = {one: [] for one in steps}
    for phase in ranges:
        if phase.phase == "step":
            continue
        around = [one for one in steps if holds(one, phase)]
        if not around and phase.key is not None and numbers.count(phase.key) == 1:
            around = [one for one in steps if one.key == phase.key]
        for one in around:
            phases[one].append(phase)
    worked = []
    for step in sorted(steps, key=lambda one: one.start):
        ends = [
            one.end
            for one in work
            for source in phases[step] or [step]
            if one.thread == source.thread and source.start <= one.launched < source.end
        ]
        if ends:
            worked.append((step, max(ends)))
    keys = [step.key for step, _ in worked]
    told_apart = None not in keys and len(set(keys)) == len(keys)
    found, reached = [], worked[0][0].start if worked else 0
    for number, (step, end) in enumerate(worked):
        if end > reached:
            name = step.key if told_apart and step.key is not None else number
            found.append((name, reached, end))
            reached = end
    return found


@settings(max_examples=100)
@given(engines())
def test_windows_against_brute_force(engine: tuple[list[Drawn], list[Work]]) -> None:
    ranges, work = engine
    expected = by_hand(ranges, work)
    found = frames(ranges, work)
    assert found == ({DEFAULT_PROCESS: expected} if expected else {})
    # They partition time: each starts where the one before ends, and none is empty.
    own = found.get(DEFAULT_PROCESS, [])
    assert all(one[2] == other[1] for one, other in pairwise(own))
    assert all(end > start for _, start, end in own)


@settings(max_examples=50)
@given(engines(), st.integers(0, 10**15), st.randoms(use_true_random=False))
def test_windows_move_with_the_clock(
    engine: tuple[list[Drawn], list[Work]], shift: int, random: Any
) -> None:
    ranges, work = engine
    moved = [replace(one, start=one.start + shift, end=one.end + shift) for one in ranges]
    later = [
        Work(one.thread, one.launched + shift, one.start + shift, one.end + shift) for one in work
    ]
    random.shuffle(later)
    expected = {
        process: [(number, start + shift, end + shift) for number, start, end in found]
        for process, found in frames(ranges, work).items()
    }
    assert frames(moved, later) == expected


# --- how much of a set lies in each window ---

LOW, HIGH = -25, 25
pairs = st.lists(st.tuples(st.integers(LOW, HIGH), st.integers(LOW, HIGH)), max_size=12)


def times(of: Sequence[tuple[int, int]]) -> tuple[intervals.Times, intervals.Times]:
    table = np.array(of, dtype=np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


@given(pairs, pairs, st.sampled_from([1, 1 << 55]))
def test_length_within(
    members: list[tuple[int, int]], asked: list[tuple[int, int]], scale: int
) -> None:
    covered = {ns for start, end in members for ns in range(start, end)}
    expected = [sum(start <= ns < end for ns in covered) * scale for start, end in asked]
    start, end = times(members)
    found = intervals.length_within(
        intervals.union(start * scale, end * scale), *(one * scale for one in times(asked))
    )
    assert found.tolist() == expected
    assert found.dtype == np.int64


def test_length_within_windows_that_overlap_touch_and_lie_outside() -> None:
    a = intervals.union(*times([(10, 20), (30, 40)]))
    asked = [(0, 10), (0, 11), (10, 20), (19, 31), (20, 30), (0, 50), (39, 50), (40, 50), (35, 15)]
    assert intervals.length_within(a, *times(asked)).tolist() == [0, 1, 10, 2, 0, 20, 1, 0, 0]
    assert intervals.length_within(intervals.EMPTY, *times([(0, 9)])).tolist() == [0]
    assert intervals.length_within(a, *times([])).tolist() == []


# --- costs weighed in iterations ---

MS = 1_000_000


def steps_of(*lengths: int, start_ns: int = 0) -> Iterations:
    ends = start_ns + np.cumsum(np.array(lengths, dtype=np.int64))
    starts = np.concatenate([[start_ns], ends[:-1]])
    return Iterations(np.arange(len(lengths), dtype=np.int64) + 70, starts, ends)


def lost(*of: tuple[int, int]) -> intervals.IntervalSet:
    return intervals.union(*times(of))


@pytest.mark.parametrize(
    ("cost_ns", "window_ns", "severity"),
    [
        (19_999, 1 * MS, Severity.INFO),
        (20_000, 1 * MS, Severity.WARNING),
        (20_000, 4 * MS, Severity.WARNING),
        (20_000, 4 * MS + 1, Severity.INFO),
        (99_999, 1 * MS, Severity.WARNING),
        (100_000, 1 * MS, Severity.ERROR),
        (20_000, 200_000, Severity.ERROR),
        (20_000, 200_001, Severity.WARNING),
    ],
)
def test_one_iteration_makes_the_severity(cost_ns: int, window_ns: int, severity: Severity) -> None:
    # The whole window is so long that the cost is nothing there.
    scale = Scale(10_000 * MS, iterations=steps_of(5 * MS, window_ns, 5 * MS))
    weight = weigh([lost((5 * MS, 5 * MS + cost_ns))], scale)
    assert (weight.cost_ns, weight.severity) == (cost_ns, severity)
    bites = severity is not Severity.INFO
    assert weight.windows == ((WindowRef("iteration", 71),) if bites else ())


def test_a_cost_is_weighed_in_each_iteration_that_it_reaches_into() -> None:
    scale = Scale(10_000 * MS, iterations=steps_of(MS, MS, MS))
    # 60 µs: 30 µs in each of two iterations.
    weight = weigh([lost((MS - 30_000, MS + 30_000))], scale)
    assert weight.severity is Severity.WARNING
    assert [one.id for one in weight.windows] == [70, 71]
    weight = weigh([lost((MS - 41_000, MS + 19_000))], scale)
    assert [one.id for one in weight.windows] == [70]
    # In none enough: info, though it is more than 20 µs in all.
    weight = weigh([lost((MS - 19_000, MS + 19_000))], scale)
    assert (weight.cost_ns, weight.severity, weight.windows) == (38_000, Severity.INFO, ())


def test_what_lies_outside_iterations_counts_only_for_the_whole() -> None:
    steps = steps_of(MS, MS, start_ns=MS)
    cost = [lost((0, 200_000), (MS, MS + 1_000))]
    weight = weigh(cost, Scale(4 * MS, iterations=steps))
    assert (weight.cost_ns, weight.severity, weight.windows) == (201_000, Severity.WARNING, ())
    weight = weigh(cost, Scale(2 * MS, iterations=steps))
    assert weight.severity is Severity.ERROR
    alone = weigh(cost, Scale(2 * MS, iterations=steps, iterations_alone=True))
    assert (alone.cost_ns, alone.severity, alone.windows) == (1_000, Severity.INFO, ())


def test_many_small_costs_are_one_large_one() -> None:
    # 5 µs in each of 100 iterations of 50 µs: none counts alone, together a tenth.
    steps = steps_of(*[50_000] * 100)
    cost = lost(*((50_000 * n, 50_000 * n + 5_000) for n in range(100)))
    for alone in (False, True):
        weight = weigh([cost], Scale(5 * MS, iterations=steps, iterations_alone=alone))
        assert (weight.cost_ns, weight.severity) == (500_000, Severity.ERROR)
        assert weight.windows == ()


def test_devices_are_weighed_together() -> None:
    steps = steps_of(MS)
    cost = lost((0, 99_999))
    two = Scale(20_000 * MS, devices=2, iterations=steps)
    assert weigh([cost, cost], two).cost_ns == 199_998
    assert weigh([cost, cost], two).severity is Severity.WARNING
    assert weigh([cost, lost((0, 100_001))], two).severity is Severity.ERROR
    assert weigh([lost((0, 100_000))], two).severity is Severity.WARNING


def test_only_whole_iterations_are_inside_a_window() -> None:
    steps = steps_of(10, 10, 10)
    for start, end, ids in (
        (0, 30, [70, 71, 72]),
        (1, 30, [71, 72]),
        (10, 29, [71]),
        (11, 19, []),
        (10, 20, [71]),
    ):
        assert steps.inside(start, end).id.tolist() == ids


# --- iterations in an audit ---


def step_content(idle_ns: int = 100_000, iterations: int = 10) -> dict[str, Any]:
    """Give steps of 2 ms; in the one with number 23 a sync leaves the device idle.

    That sync ends 6 µs after what it waited for. Those of the steps before and after cost nothing.
    """
    ranges, kernels = [OURS], []
    for n in range(iterations):
        at = 2 * MS * n
        ranges.append(ours("step", at + 1_000, at + 900_000, 20 + n))
        kernels.append(kernel(at + 2_000, at if n else at + 4_000, at + MS))
        end = at + MS + (idle_ns if n == 3 else 0)
        kernels.append(kernel(at + 3_000 if n != 3 else end - 2_000, end, at + 2 * MS))
    ranges[4] = ours("step", 6 * MS + 1_000, 7 * MS + idle_ns, 23)
    sync = Sync(6 * MS + 500_000, 7 * MS + 6_000, "stream_sync")
    return {
        "ranges": ranges,
        "kernels": kernels,
        "syncs": [moved(sync, by) for by in (-2 * MS, 0, 2 * MS)],
    }


def moved(sync: Sync, shift: int) -> Sync:
    return replace(sync, start_ns=sync.start_ns + shift, end_ns=sync.end_ns + shift)


def test_a_finding_names_the_iterations_that_it_costs() -> None:
    found = finding(audit_of(**step_content()), "OA502")
    assert found["where"]["windows"] == [{"kind": "iteration", "id": 23}]
    # 100 µs of 2 ms, of 20 ms in all.
    assert (found["cost_ns"], found["severity"]) == (100_000, "warning")
    assert found["evidence"]["calls"] == 3
    # A tenth of that iteration, but a hundredth of the trace.
    assert finding(audit_of(**step_content(200_000)), "OA502")["severity"] == "error"
    assert finding(audit_of(**step_content(199_999)), "OA502")["severity"] == "warning"


def test_a_cost_below_20_us_in_every_iteration_is_no_more_than_info() -> None:
    found = finding(audit_of(**step_content(19_999)), "OA502")
    assert (found["cost_ns"], found["severity"]) == (19_999, "info")
    assert found["where"]["windows"] == []
    found = finding(audit_of(**step_content(20_000)), "OA502")
    assert (found["cost_ns"], found["severity"]) == (20_000, "warning")


def test_a_cut_iteration_is_none() -> None:
    content = step_content(200_000)
    # The iteration with the number 23 lasts from 6 ms to 8 ms.
    whole = finding(audit_of(window="6ms..12ms", **content), "OA502")
    assert whole["where"]["windows"] == [{"kind": "iteration", "id": 23}]
    assert whole["severity"] == "error"
    # Cut by 1 ns at either end it is none; the cost is 200 µs of nearly 4 or 6 ms.
    for window in ("6000001ns..12ms", "4ms..7999999ns"):
        cut = finding(audit_of(window=window, **content), "OA502")
        assert cut["where"]["windows"] == []
        assert (cut["cost_ns"], cut["severity"]) == (200_000, "warning")
    # In a window without any whole iteration the window itself is what counts.
    alone = finding(audit_of(window="6500us..7500us", **content), "OA502")
    assert (alone["where"]["windows"], alone["severity"]) == ([], "error")


def test_a_window_cuts_the_cost_in_its_iterations() -> None:
    found = finding(audit_of(window="0ms..7050us", **step_content()), "OA502")
    assert (found["cost_ns"], found["where"]["windows"]) == (50_000, [])


def before_the_steps(gap_ns: int) -> dict[str, Any]:
    """Give a wait that costs, a while before the first step."""
    content = step_content(0)
    early = [kernel(-12 * MS, -11 * MS, -10 * MS), kernel(gap_ns - 10 * MS, gap_ns - 10 * MS, -MS)]
    shift = 20 * MS
    kernels = [*early, *content["kernels"]]
    return {
        "kernels": [moved_kernel(one, shift) for one in kernels],
        "ranges": [
            OURS,
            *(
                replace(one, start_ns=one.start_ns + shift, end_ns=one.end_ns + shift)
                for one in content["ranges"][1:]
            ),
        ],
        "syncs": [Sync(shift - 11 * MS, shift - 10 * MS + 6_000, "stream_sync")],
    }


def moved_kernel(one: Kernel, shift: int) -> Kernel:
    call = one.launch
    assert isinstance(call, ApiCall)
    call = replace(call, start_ns=call.start_ns + shift, end_ns=call.end_ns + shift)
    return replace(one, start_ns=one.start_ns + shift, end_ns=one.end_ns + shift, launch=call)


def test_by_iterations_alone_nothing_else_counts() -> None:
    content = before_the_steps(4 * MS)
    whole = audit_of(**content)
    found = finding(whole, "OA502")
    assert (found["cost_ns"], found["severity"]) == (4 * MS, "error")
    by_steps = audit_of(window="iteration", **content)
    found = finding(by_steps, "OA502")
    assert (found["cost_ns"], found["severity"]) == (0, "info")
    assert found["evidence"]["gpu_idle_ns"] == 4 * MS
    # What the devices did is told of the whole trace in both.
    assert by_steps["devices"] == whole["devices"]
    assert by_steps["window"]["kind"] == "iteration"


def test_by_iterations_alone_the_same_cost_inside_them_counts() -> None:
    content = step_content()
    found = finding(audit_of(window="iteration", **content), "OA502")
    assert (found["cost_ns"], found["severity"]) == (100_000, "warning")
    assert found["where"]["windows"] == [{"kind": "iteration", "id": 23}]


def test_by_iterations_needs_iterations() -> None:
    content = step_content()
    with pytest.raises(UsageError, match="no step is marked"):
        audit_of(window="iteration", kernels=content["kernels"])
    with pytest.raises(UsageError, match="no step is marked"):
        audit_of(window="iteration", kernels=content["kernels"], ranges=content["ranges"][:1])


def test_by_iterations_on_the_command_line(run: Run, tmp_path: Path) -> None:
    marked = make_trace(tmp_path / "marked.sqlite", **step_content())
    assert run("audit", marked, "--window", "iteration").status == 0
    bare = make_trace(tmp_path / "bare.sqlite", kernels=step_content()["kernels"])
    done = run("audit", bare, "--window", "iteration")
    assert done.status == 2
    assert done.complaint.startswith("--window iteration: no step is marked in this trace")
    assert done.out == ""
    done = run("audit", marked, "--window", "iterations")
    assert (done.status, done.complaint.count("expected trace, iteration")) == (2, 1)


def test_foreign_steps_make_iterations_of_an_audit() -> None:
    content = step_content(200_000)
    text = "execute_context_1(5)_generation_2(2)"
    steps = [Range(text, one.start_ns, one.end_ns) for one in content["ranges"][1:]]
    found = finding(audit_of(**{**content, "ranges": steps}), "OA502")
    assert found["where"]["windows"] == [{"kind": "iteration", "id": 3}]
    assert (found["severity"], found["where"]["range"]) == ("error", text)


def test_an_engine_that_runs_ahead_has_no_finding() -> None:
    # Each step launches its work while the one before runs, and reads the result of that one.
    ranges, kernels, copies, syncs = [OURS], [], [], []
    for n in range(12):
        at = MS * n
        ranges += [
            ours("step", at + 50_000, at + 950_000, n),
            ours("model", at + 100_000, at + 200_000, n),
            ours("result_d2h", at + 700_000, at + 820_000, n),
        ]
        kernels.append(kernel(at + 110_000, at + 700_000, at + MS + 700_000, name="gemm"))
        # What the step before computed, copied on a stream of its own, read one step later.
        call = ApiCall("cudaMemcpyAsync_v3020", at + 150_000, at + 152_000)
        copies.append(Copy(at + 705_000, at + 710_000, "d2h", 64, stream=9, launch=call))
        syncs.append(Sync(at + 705_000, at + 800_000, "stream_sync", stream=9))
    content: dict[str, Any] = {
        "ranges": ranges, "kernels": kernels, "copies": copies, "syncs": syncs,
    }  # fmt: skip
    document = audit_of(**content)
    assert [code for code in codes(document) if code.startswith("OA5")] == []
    assert document["hidden_syncs"] == []
    # And none for the waits themselves: the device had work throughout.
    document = audit_of(policy=oa.Policy(allow_waits=()), **content)
    assert {one["gpu_idle_ns"] for one in document["hidden_syncs"]} == {0}
    assert all(one["severity"] == "info" for one in document["findings"])


def test_an_allocation_in_a_window_without_whole_iterations() -> None:
    content = step_content()
    call = ApiCall("cudaMalloc_v3020", 7 * MS + 10_000, 7 * MS + 60_000)
    document = audit_of(window="6500us..7500us", api_calls=[call], **content)
    assert "OA505" in codes(document)


def test_what_a_window_leaves_out_was_served_all_the_same() -> None:
    content = step_content()
    # In the iteration of 6 ms to 8 ms, the first whole one of this window.
    call = ApiCall("cudaMalloc_v3020", 7 * MS + 10_000, 7 * MS + 60_000)
    document = audit_of(window="5ms..11ms", api_calls=[call], **content)
    assert "OA505" in codes(document)
