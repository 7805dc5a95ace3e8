"""Several devices: collectives that wait for the last rank, shared links, ranks that hang."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overlapaudit_engine.sim.runtime import Runtime
from overlapaudit_engine.sim.timeline import Stuck
from overlapaudit_engine.sim.world import World
from overlapaudit_engine.work import CollectiveWork, CopyWay, CopyWork, Memory
from tests.virtual import PLAIN, kernel, times

ALL_REDUCE = CollectiveWork(
    "AllReduce", "comm.nccl", channels=4, sent_bytes=1_000_000, base_ns=8_000
)


def ranks(*programs: Callable[[Runtime], object]) -> World:
    """Run a program on each rank, each with a device of its own."""
    world = World(PLAIN, devices=len(programs))
    world.collectives.sizes["tp"] = len(programs)
    for device, program in enumerate(programs):
        cuda = world.process((device,))
        cuda.process.start(1, "main", lambda program=program, cuda=cuda: program(cuda))  # type: ignore[misc]
    return world


def enter(cuda: Runtime, after_ns: int = 0, work: CollectiveWork = ALL_REDUCE) -> None:
    device = next(iter(cuda.process.devices))
    cuda.process.work(after_ns)
    cuda.launch(cuda.null_stream(device), work, group="tp")


def test_a_collective_starts_by_itself_and_ends_with_all() -> None:
    world = ranks(lambda cuda: enter(cuda), lambda cuda: enter(cuda, 40_000))
    world.run()
    # The last comes at 45 µs; 8 µs later 1 MB goes at 100 bytes a ns.
    assert times(world) == [("AllReduce", 5_000, 63_000), ("AllReduce", 45_000, 63_000)]
    first, last = sorted(world.tasks, key=lambda task: task.start_ns)
    assert first.peers_by is not None
    assert (first.peers_by.at_ns, first.peers_by.task) == (45_000, last)


def test_a_collective_holds_its_sms_while_it_waits() -> None:
    def early(cuda: Runtime) -> None:
        enter(cuda)
        cuda.launch(cuda.stream(0), kernel(10, 10_000))

    world = ranks(early, lambda cuda: enter(cuda, 40_000))
    world.run()
    # Six SMs are left: six blocks, then four.
    (found,) = [row for row in times(world) if row[0] == "gemm"]
    assert found[2] - found[1] == 20_000


def test_a_link_is_shared_by_what_goes_over_it() -> None:
    def copying(cuda: Runtime) -> None:
        enter(cuda)
        work = CopyWork(CopyWay.P2P, 2_000_000, Memory.DEVICE, Memory.DEVICE, peer=1)
        cuda.copy(cuda.stream(0), work)

    world = ranks(copying, lambda cuda: enter(cuda))
    world.run()
    rows = {row[0]: row for row in times(world)}
    # The copy has the link from 7 µs on, half of it from 13 µs: 600 KB, then 1.4 MB at 50 …
    assert rows["AllReduce"][2] == 13_000 + 20_000
    # … of which 1 MB goes beside the collective, and the last 0.4 MB alone.
    assert rows["p2p"] == ("p2p", 7_000, 33_000 + 4_000)


def test_collectives_meet_in_the_order_of_each_rank() -> None:
    def twice(cuda: Runtime) -> None:
        enter(cuda)
        enter(cuda)

    def slow(cuda: Runtime) -> None:
        enter(cuda, 30_000)
        enter(cuda, 60_000)

    world = ranks(twice, slow)
    world.run()
    assert [len(tasks) for _, tasks in world.collectives.met] == [2, 2]
    ends = sorted({row[2] for row in times(world)})
    assert ends == [35_000 + 18_000, 96_000 + 18_000]


def test_a_rank_that_never_comes_hangs_the_others() -> None:
    def waits(cuda: Runtime) -> None:
        enter(cuda)
        cuda.synchronize_device(0)

    world = ranks(waits, lambda cuda: cuda.process.work(1_000))
    with pytest.raises(Stuck) as stuck:
        world.run()
    assert stuck.value.waiting == ("rank 0, main",)
    ((group, tasks),) = world.collectives.waiting()
    assert (group, [task.stream.process for task in tasks]) == ("tp", [0])
    # What had happened by then is there.
    assert [row.name for row in world.log.api] == ["cudaLaunchKernel", "cudaDeviceSynchronize"]


def test_devices_do_not_disturb_each_other() -> None:
    def busy(cuda: Runtime) -> None:
        device = next(iter(cuda.process.devices))
        cuda.launch(cuda.null_stream(device), kernel(5, 1, read_bytes=10_000_000))

    world = ranks(busy, busy, busy)
    world.run()
    assert times(world) == [("gemm", 5_000, 15_000)] * 3


def test_one_process_may_use_two_devices() -> None:
    world = World(PLAIN, devices=2)
    cuda = world.process((0, 1))

    def main() -> None:
        for device in (0, 1):
            cuda.launch(cuda.null_stream(device), kernel(10, 10_000))
        cuda.synchronize_device(1)

    cuda.process.start(1, "main", main)
    world.run()
    assert times(world) == [("gemm", 5_000, 15_000), ("gemm", 6_000, 16_000)]
    assert [row.device for row in world.log.kernels] == [0, 1]
