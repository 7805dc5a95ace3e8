"""Whatever a program does: nothing is used beyond what there is, nothing is lost, order is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlapaudit_engine.sim.laws import Fair, Law, Resource, Rough
from overlapaudit_engine.sim.running import Sharing
from overlapaudit_engine.sim.runtime import Runtime
from overlapaudit_engine.sim.world import World
from overlapaudit_engine.work import KernelWork
from tests.virtual import PLAIN, copy, kernel, plain, run, times

HBM = Resource("hbm", 0)


@dataclass(frozen=True)
class Step:
    """One call of a drawn program."""

    what: str
    stream: int
    size: int
    fit: int = 1
    block_ns: int = 1


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["kernel", "stream", "h2d", "d2h", "event", "sync", "default"]),
        st.integers(0, 2),
        st.integers(0, 3_000_000),
        st.sampled_from([1, 2, 3, 8]),
        st.integers(1, 20_000),
    ),
    max_size=25,
)


def program(steps: list[Step], works: list[KernelWork], cuda: Runtime) -> None:
    streams = [cuda.stream(0, non_blocking=number > 0, priority=-number) for number in range(3)]
    for number, step in enumerate(steps):
        stream = streams[step.stream]
        if step.what in ("h2d", "d2h"):
            cuda.copy(stream, copy(step.what, step.size))
        elif step.what == "event":
            event = cuda.event()
            cuda.record(event, stream)
            cuda.wait_event(streams[(step.stream + 1) % 3], event)
        elif step.what == "sync":
            cuda.synchronize_stream(stream)
        else:
            blocks = 1 + step.size % 37
            work = kernel(
                blocks, step.block_ns, f"k{number}", fit=step.fit,
                read_bytes=step.size if step.what != "stream" else 0,
                write_bytes=step.size // 3, working_set_bytes=step.size, power=1.0,
                persistent=step.block_ns % 2 == 0,
            )  # fmt: skip
            works.append(work)
            cuda.launch(cuda.null_stream(0) if step.what == "default" else stream, work)


LAWS: list[Law] = [Fair(), Rough(PLAIN)]


@pytest.mark.parametrize("law", LAWS, ids=["fair", "rough"])
@given(STEPS)
@settings(max_examples=60)
def test_no_resource_gives_more_than_it_has(law: Law, steps: list[Step]) -> None:
    moments: list[Sharing] = []
    run(partial(program, steps, []), law=law, watch=moments.append)
    for moment in moments:
        sums: dict[Resource, float] = defaultdict(float)
        for taken in moment.taken.values():
            for resource, amount in taken.items():
                sums[resource] += amount
        for resource, amount in sums.items():
            assert amount <= moment.capacities[resource] * (1 + 1e-9)


@given(STEPS)
@settings(max_examples=60)
def test_every_byte_is_moved_once(steps: list[Step]) -> None:
    moments: list[Sharing] = []
    works: list[KernelWork] = []
    world = run(partial(program, steps, works), watch=moments.append)
    rates: dict[int, tuple[int, float]] = {}
    moved = 0.0
    for moment in moments:
        for number in (*moment.taken, *moment.ended):
            since, rate = rates.pop(number, (moment.at_ns, 0.0))
            moved += rate * (moment.at_ns - since)
        for number, taken in moment.taken.items():
            rates[number] = (moment.at_ns, taken.get(HBM, 0.0))
    assert not any(rate for _, rate in rates.values())
    wanted = sum(work.read_bytes + work.write_bytes for work in works)
    wanted += sum(row.size for row in world.log.copies)
    # Each end is rounded to a ns, in which at most 1,000 bytes move.
    ends = sum(len(moment.taken) + len(moment.ended) for moment in moments)
    assert moved == pytest.approx(wanted, abs=1_000 * (ends + 1))


@pytest.mark.parametrize("law", LAWS, ids=["fair", "rough"])
@given(STEPS)
@settings(max_examples=60)
def test_order_is_kept(law: Law, steps: list[Step]) -> None:
    world = run(partial(program, steps, []), law=law)
    by_stream: dict[int, list[Any]] = defaultdict(list)
    for task in sorted(world.tasks, key=lambda task: task.number):
        by_stream[task.stream.number].append(task)
        assert task.arrive_ns <= task.ready_ns <= task.start_ns <= task.end_ns
        assert task.ready_by is not None
        assert task.ready_by.at_ns == task.ready_ns
        if task.ready_by.task is not None:
            assert task.ready_by.task.end_ns <= task.ready_ns
        if task.started_by is not None:
            assert task.started_by.task is not None
            assert task.ready_ns < task.start_ns == task.started_by.at_ns
        else:
            assert task.start_ns == task.ready_ns
    for tasks in by_stream.values():
        for one, next_one in pairwise(tasks):
            assert next_one.start_ns >= one.end_ns + PLAIN.stream_gap.p50
    ends = [task.end_ns for task in world.tasks]
    assert ends == sorted(ends)
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(world.log.api))


@given(STEPS)
@settings(max_examples=30)
def test_a_run_is_the_same_each_time(steps: list[Step]) -> None:
    first = run(partial(program, steps, [])).log
    assert run(partial(program, steps, [])).log == first


@given(STEPS)
@settings(max_examples=60)
def test_nothing_lasts_less_than_alone(steps: list[Step]) -> None:
    world = run(partial(program, steps, []))
    for row in world.log.kernels:
        assert isinstance(row.work, KernelWork)
        (alone,) = times(run(lambda cuda, work=row.work: cuda.launch(cuda.stream(0), work)))  # type: ignore[misc]
        # Where it shares HBM each of its waves is rounded to a ns by itself.
        assert row.end_ns - row.start_ns >= alone[2] - alone[1] - row.work.blocks


# What distinguishes the laws


def lasting(law: Law, *programs: Callable[[Runtime], object], **figures: object) -> dict[str, int]:
    def both(cuda: Runtime) -> None:
        for one in programs:
            one(cuda)

    hardware = plain(**figures)
    found = times(run(both, hardware, law=Rough(hardware) if law.name == "rough" else Fair()))
    return {name: end - start for name, start, end in found}


def launching(work: KernelWork) -> Callable[[Runtime], object]:
    return lambda cuda: cuda.launch(cuda.stream(0), work)


def test_a_persistent_kernel_keeps_its_few_sms_when_its_neighbour_has_gone() -> None:
    neighbour = launching(kernel(8, 5_000, "short"))
    tiles = launching(kernel(40, 10_000, "tiles", persistent=True))
    assert lasting(Fair(), tiles) == {"tiles": 40_000}
    assert lasting(Rough(PLAIN), tiles) == {"tiles": 40_000}
    # Two SMs are free when it starts, ten 3 µs later.
    assert lasting(Fair(), neighbour, tiles)["tiles"] == 3_000 + 40_000
    assert lasting(Rough(PLAIN), neighbour, tiles)["tiles"] == 20 * 10_000


def test_directions_of_pcie_disturb_each_other() -> None:
    down = lambda cuda: cuda.copy(cuda.stream(0), copy("h2d", 3_000_000))  # noqa: E731
    up = lambda cuda: cuda.copy(cuda.stream(0), copy("d2h", 400_000))  # noqa: E731
    assert lasting(Fair(), down, up) == {"h2d": 60_000, "d2h": 10_000}
    # 2 µs alone at 50, then 20 µs at 30 while the other goes at 20, then the rest at 50.
    left = 3_000_000 - 2_000 * 50 - 20_000 * 30
    assert lasting(Rough(PLAIN), down, up) == {"h2d": 22_000 + left // 50, "d2h": 20_000}


def test_reads_and_writes_of_hbm_disturb_each_other() -> None:
    reads = launching(kernel(5, 1, "reads", read_bytes=10_000_000))
    writes = launching(kernel(5, 1, "writes", write_bytes=10_000_000))
    assert lasting(Rough(PLAIN), reads)["reads"] == lasting(Fair(), reads)["reads"] == 10_000
    assert lasting(Fair(), reads, writes) == {"reads": 18_000, "writes": 18_000}
    slowed = lasting(Rough(PLAIN), reads, writes)
    # Half of 85 % each while both run.
    assert slowed["reads"] == 2_000 + round(8_000_000 / 425)


def test_working_sets_that_do_not_fit_are_read_again() -> None:
    def reads(name: str, working_set: int) -> Callable[[Runtime], object]:
        return launching(
            kernel(5, 40_000, name, read_bytes=10_000_000, working_set_bytes=working_set)
        )

    small, large = 400_000, 2_000_000
    fair = lasting(Fair(), reads("a", large), reads("b", large))
    assert fair == lasting(Rough(PLAIN), reads("a", small), reads("b", small))
    assert (
        fair == lasting(Fair(), reads("a", small), reads("b", small)) == {"a": 40_000, "b": 40_000}
    )
    # Half of both is lost, and read again: 325 bytes a ns each of 1,000, which is still enough.
    assert lasting(Rough(PLAIN), reads("a", large), reads("b", large)) == fair
    slowed = lasting(Rough(PLAIN), reads("a", large), reads("b", large), hbm_rate=560.0)
    assert slowed["a"] > lasting(Fair(), reads("a", large), reads("b", large), hbm_rate=560.0)["a"]


def test_a_power_cap_slows_what_computes() -> None:
    dense = [launching(kernel(6, 10_000, name, fit=1, power=1.5)) for name in "ab"]
    # Six of ten SMs draw 90 %; ten draw 150 %.
    assert lasting(Fair(), *dense[:1]) == lasting(Rough(PLAIN), *dense[:1]) == {"a": 10_000}
    assert lasting(Rough(PLAIN), *dense)["a"] > 10_000
    assert lasting(Fair(), *dense)["a"] == 10_000


def test_two_worlds_do_not_know_of_each_other() -> None:
    one, other = World(PLAIN), World(PLAIN)
    assert one.timeline is not other.timeline
    assert one.log is not other.log
