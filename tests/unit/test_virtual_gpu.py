"""The virtual GPU against arithmetic: what runs beside what, and for how long, to the ns.

The device has 10 SMs, 1,000 bytes a ns of HBM, 50 and 40 of PCIe; a call costs 1 µs, a launch
reaches the device 5 µs after it began, what follows in a stream begins 1 µs after.
"""

from __future__ import annotations

import pytest

from overlapaudit_engine.sim.runtime import Runtime
from overlapaudit_engine.sim.task import Release
from overlapaudit_engine.sim.world import World
from overlapaudit_engine.work import CopyWork, HostFunctionWork, Memory, MemsetWork
from tests.virtual import PLAIN, copy, flat, kernel, plain, run, times

# Streams are 13, 14, …; making two of them takes the first 2 µs.


def test_one_kernel_lasts_as_long_as_its_waves() -> None:
    for blocks, waves in ((1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (95, 10)):
        world = run(lambda cuda, n=blocks: cuda.launch(cuda.stream(0), kernel(n, 1_000)))  # type: ignore[misc]
        assert times(world) == [("gemm", 6_000, 6_000 + waves * 1_000)]


def test_blocks_that_fit_together_run_together() -> None:
    # Four to an SM: 40 at a time.
    world = run(lambda cuda: cuda.launch(cuda.stream(0), kernel(80, 1_000, fit=4)))
    assert times(world) == [("gemm", 6_000, 8_000)]


def test_what_shares_nothing_lasts_as_long_as_the_longest() -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        cuda.launch(a, kernel(10, 20_000))
        cuda.copy(b, copy("h2d", 500_000))

    assert times(run(program)) == [("gemm", 7_000, 27_000), ("h2d", 8_000, 18_000)]


def test_kernels_on_their_own_sms_do_not_disturb_each_other() -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        cuda.launch(a, kernel(5, 10_000, "a"))
        cuda.launch(b, kernel(5, 10_000, "b"))

    assert times(run(program)) == [("a", 7_000, 17_000), ("b", 8_000, 18_000)]


def test_hbm_is_shared_equally_between_two_that_want_all_of_it() -> None:
    # Each alone on 5 SMs asks for 1,000 bytes a ns: 10 MB in 10 µs.
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        cuda.launch(a, kernel(5, 1, "a", read_bytes=10_000_000))
        cuda.launch(b, kernel(5, 1, "b", read_bytes=10_000_000))

    # a alone for 1 µs, then half each: 9 MB of a take 18 µs; then b has all for its last MB.
    assert times(run(program)) == [("a", 7_000, 26_000), ("b", 8_000, 27_000)]


def test_one_that_wants_less_than_its_share_of_hbm_is_not_slowed() -> None:
    # The copy takes 50 bytes a ns of 1,000; the kernel has 950 while it runs.
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        cuda.copy(b, copy("h2d", 950_000))
        cuda.launch(a, kernel(10, 1, "a", read_bytes=28_500_000))

    found = times(run(program))
    assert found[0] == ("h2d", 7_000, 26_000)
    # From 8 to 26 µs at 950: 17.1 MB; the last 11.4 MB at 1,000.
    assert found[1] == ("a", 8_000, 26_000 + 11_400)


def test_a_kernel_that_fills_the_device_keeps_the_next_waiting() -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        cuda.launch(a, kernel(10, 30_000, "a"))
        cuda.launch(b, kernel(1, 1_000, "b"))

    world = run(program)
    assert times(world) == [("a", 7_000, 37_000), ("b", 37_000, 38_000)]
    (late,) = [task for task in world.tasks if task.key.site.endswith("b")]
    assert late.ready_ns == 8_000
    assert late.started_by is not None
    assert (late.started_by.kind, late.started_by.task) == (Release.SMS, world.tasks[0])


def test_no_block_overtakes_one_that_finds_no_room() -> None:
    def program(cuda: Runtime) -> None:
        a, b, c = cuda.stream(0), cuda.stream(0), cuda.stream(0)
        cuda.launch(a, kernel(9, 10_000, "a"))
        cuda.launch(b, kernel(3, 10_000, "b"))  # one block has room at once
        cuda.launch(c, kernel(1, 1_000, "c"))

    # At 18 µs nine SMs are free: two for b, and c after it.
    assert times(run(program)) == [
        ("a", 8_000, 18_000), ("b", 9_000, 28_000), ("c", 18_000, 19_000),
    ]  # fmt: skip


def test_a_stream_of_higher_priority_has_the_next_free_sms() -> None:
    def program(cuda: Runtime) -> None:
        low, other = cuda.stream(0), cuda.stream(0)
        high = cuda.stream(0, priority=-5)
        cuda.launch(low, kernel(10, 10_000, "a"))
        cuda.launch(other, kernel(10, 10_000, "b"))
        cuda.launch(high, kernel(10, 10_000, "c"))

    # What runs is left alone.
    assert times(run(program)) == [
        ("a", 8_000, 18_000), ("c", 18_000, 28_000), ("b", 28_000, 38_000),
    ]  # fmt: skip


def test_copies_of_one_direction_queue_and_of_two_do_not() -> None:
    def program(cuda: Runtime) -> None:
        a, b, c = cuda.stream(0), cuda.stream(0), cuda.stream(0)
        cuda.copy(a, copy("h2d", 500_000))
        cuda.copy(b, copy("h2d", 500_000))
        cuda.copy(c, copy("d2h", 400_000))

    world = run(program)
    assert times(world) == [
        ("h2d", 8_000, 18_000),
        ("d2h", 10_000, 20_000),
        ("h2d", 18_000, 28_000),
    ]
    queued = next(task for task in world.tasks if task.key.site == "14:h2d")
    assert queued.started_by is not None
    assert (queued.ready_ns, queued.started_by.kind) == (9_000, Release.ENGINE)


def test_a_memset_takes_as_long_as_it_writes() -> None:
    world = run(lambda cuda: cuda.memset(cuda.stream(0), MemsetWork(5_000_000)))
    (row,) = world.log.memsets
    assert (row.start_ns, row.end_ns) == (6_000, 11_000)


# Streams


def test_a_stream_keeps_its_order_with_a_gap() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.launch(stream, kernel(1, 10_000, "a"))
        cuda.launch(stream, kernel(1, 10_000, "b"))

    world = run(program)
    assert times(world) == [("a", 6_000, 16_000), ("b", 17_000, 27_000)]
    assert world.tasks[1].ready_by is not None
    assert world.tasks[1].ready_by.kind is Release.STREAM


def test_an_event_orders_two_streams() -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        event = cuda.event()
        cuda.launch(a, kernel(1, 20_000, "a"))
        cuda.record(event, a)
        cuda.launch(a, kernel(1, 20_000, "later"))  # nobody waits for that
        cuda.wait_event(b, event)
        cuda.launch(b, kernel(1, 1_000, "b"))

    world = run(program)
    assert times(world) == [("a", 8_000, 28_000), ("later", 29_000, 49_000), ("b", 29_500, 30_500)]
    (waited,) = [task for task in world.tasks if task.key.site == "14:b"]
    assert waited.ready_by is not None
    assert (waited.ready_by.kind, waited.ready_by.task) == (Release.EVENT, world.tasks[0])


def test_a_wait_for_an_event_without_a_record_waits_for_nothing() -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        event = cuda.event()
        cuda.launch(a, kernel(1, 50_000, "a"))
        cuda.wait_event(b, event)
        cuda.launch(b, kernel(1, 1_000, "b"))
        cuda.record(event, a)

    assert times(run(program)) == [("a", 8_000, 58_000), ("b", 10_000, 11_000)]


def test_an_event_that_is_recorded_anew_counts_from_then_on() -> None:
    def program(cuda: Runtime) -> None:
        a, b, c = cuda.stream(0), cuda.stream(0), cuda.stream(0)
        event = cuda.event()
        cuda.launch(a, kernel(1, 10_000, "a"))
        cuda.record(event, a)
        cuda.wait_event(b, event)
        cuda.launch(a, kernel(1, 10_000, "a2"))
        cuda.record(event, a)
        cuda.wait_event(c, event)
        cuda.launch(b, kernel(1, 1_000, "b"))
        cuda.launch(c, kernel(1, 1_000, "c"))

    world = run(program)
    starts = {name: start for name, start, _ in times(world)}
    assert starts == {"a": 9_000, "b": 20_500, "a2": 20_000, "c": 31_500}
    assert [row.record for row in world.log.events] == [1, 2]
    assert [row.record for row in world.log.syncs] == [1, 2]


@pytest.mark.parametrize(("non_blocking", "start_ns"), [(False, 29_500), (True, 9_000)])
def test_the_default_stream_waits_for_blocking_streams(non_blocking: bool, start_ns: int) -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0, non_blocking=non_blocking), cuda.stream(0, non_blocking=non_blocking)
        cuda.launch(a, kernel(1, 21_000, "a"))
        cuda.launch(b, kernel(1, 10_000, "b"))
        cuda.launch(cuda.null_stream(0), kernel(1, 5_000, "null"))
        cuda.launch(b, kernel(1, 1_000, "after"))

    world = run(program)
    starts = {name: start for name, start, _ in times(world)}
    assert starts["null"] == start_ns
    # And what blocking streams are given later waits for it.
    assert starts["after"] == (start_ns + 5_000 + 1_500 if not non_blocking else 19_000)


def test_streams_of_one_hardware_queue_hold_each_other_up() -> None:
    def program(connections: int) -> list[tuple[str, int, int]]:
        world = World(PLAIN)
        cuda = world.process(connections=connections)

        def main() -> None:
            a, b = cuda.stream(0), cuda.stream(0)
            cuda.launch(a, kernel(1, 20_000, "a"))
            cuda.launch(a, kernel(1, 20_000, "a2"))
            cuda.launch(b, kernel(1, 1_000, "b"))

        cuda.process.start(1, "main", main)
        world.run()
        return times(world)

    free = [("a", 7_000, 27_000), ("b", 9_000, 10_000), ("a2", 28_000, 48_000)]
    assert program(8) == free
    # b stands behind a2, which waits for a.
    held = [("a", 7_000, 27_000), ("a2", 28_000, 48_000), ("b", 28_000, 29_000)]
    assert program(1) == held


# Calls that wait


def test_a_launch_waits_while_the_queue_is_full() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        for number in range(5):
            cuda.launch(stream, kernel(1, 50_000, f"k{number}"))

    world = run(program, plain(queue_depth=3))
    calls = [row for row in world.log.api if row.name == "cudaLaunchKernel"]
    # Three fit; the fourth waits until the first begins at 6 µs, the fifth for the second.
    assert [row.end_ns - row.start_ns for row in calls] == [1_000, 1_000, 1_000, 3_000, 51_000]
    assert [row.kind.value for row in world.log.overheads if row.correlation in
            (calls[3].correlation, calls[4].correlation)].count("queue_full") == 2  # fmt: skip


def test_a_synchronisation_returns_after_the_end_of_what_it_waited_for() -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        event = cuda.event()
        cuda.launch(a, kernel(1, 20_000))
        cuda.record(event, a)
        cuda.launch(b, kernel(1, 70_000))
        cuda.synchronize_event(event)
        cuda.synchronize_stream(a)
        cuda.synchronize_device(0)

    world = run(program)
    ends = [(row.name, row.end_ns) for row in world.log.api[-3:]]
    assert ends == [
        ("cudaEventSynchronize", 28_000 + 2_000),
        ("cudaStreamSynchronize", 31_000),  # nothing was pending
        ("cudaDeviceSynchronize", 80_000 + 2_000),
    ]
    for row in world.log.syncs:
        (call,) = [one for one in world.log.api if one.correlation == row.correlation]
        assert call.start_ns <= row.start_ns <= row.end_ns <= call.end_ns


def test_a_query_does_not_wait() -> None:
    answers = []

    def program(cuda: Runtime) -> None:
        stream, event = cuda.stream(0), cuda.event()
        answers.append(cuda.query_event(event))
        cuda.launch(stream, kernel(1, 10_000))
        cuda.record(event, stream)
        answers.append(cuda.query_event(event))
        cuda.process.work(20_000)
        answers.append(cuda.query_event(event))

    world = run(program)
    assert answers == [True, False, True]
    queries = [row.result for row in world.log.api if row.name == "cudaEventQuery"]
    assert queries == [0, 600, 0]


def pageable(way: str, size: int) -> CopyWork:
    if way == "h2d":
        return copy(way, size, source=Memory.PAGEABLE)
    return copy(way, size, destination=Memory.PAGEABLE)


def test_a_small_pageable_copy_to_the_device_is_staged_by_its_call() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.launch(stream, kernel(1, 50_000))
        cuda.copy(stream, pageable("h2d", 60_000))

    world = run(program)
    # 6 µs to stage at 10 bytes a ns; the copy itself comes after the kernel.
    assert world.log.api[-1].end_ns - world.log.api[-1].start_ns == 7_000
    assert times(world)[1] == ("h2d", 57_000, 63_000)


def test_a_large_pageable_copy_waits_for_the_work_before_it() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.launch(stream, kernel(1, 50_000))
        cuda.copy(stream, pageable("h2d", 100_000))

    world = run(program)
    assert times(world)[1] == ("h2d", 57_000, 67_000)
    assert world.log.api[-1].end_ns == 69_000


def test_a_pageable_copy_from_the_device_returns_after_its_end() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.launch(stream, kernel(1, 50_000))
        cuda.copy(stream, pageable("d2h", 8))

    world = run(program)
    assert times(world)[1] == ("d2h", 57_000, 57_001)
    assert world.log.api[-1].end_ns == 59_001


def test_a_synchronous_copy_waits_and_stands_in_the_default_stream() -> None:
    def program(cuda: Runtime) -> None:
        cuda.launch(cuda.stream(0, non_blocking=False), kernel(1, 50_000))
        cuda.copy_and_wait(copy("d2h", 400), 0)

    world = run(program)
    assert times(world)[1] == ("d2h", 57_500, 57_510)
    assert world.log.copies[0].stream == 7
    assert world.log.api[-1].end_ns == 59_510


def test_freeing_memory_waits_for_the_device() -> None:
    def program(cuda: Runtime) -> None:
        address = cuda.allocate(0, 4096)
        cuda.launch(cuda.stream(0), kernel(1, 50_000))
        cuda.free(address)
        cuda.allocate(0, 4096)

    world = run(program)
    ends = {row.name: row.end_ns for row in world.log.api}
    assert (ends["cudaFree"], ends["cudaMalloc"]) == (57_000 + 2_000, 60_000)
    assert [(row.allocates, row.size) for row in world.log.memory] == [
        (True, 4096), (False, 4096), (True, 4096),
    ]  # fmt: skip


def test_the_first_launch_of_a_kernel_loads_it() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.launch(stream, kernel(1, 1_000))
        cuda.launch(stream, kernel(1, 1_000))

    world = run(program, plain(calls={"*": flat(1_000), "lazy_load": flat(30_000)}))
    assert [row.end_ns - row.start_ns for row in world.log.api[1:]] == [31_000, 1_000]
    assert times(world) == [("gemm", 36_000, 37_000), ("gemm", 38_000, 39_000)]


def test_a_host_function_holds_its_stream() -> None:
    called = []

    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.launch(stream, kernel(1, 10_000, "a"))
        cuda.host_function(
            stream, HostFunctionWork("callback", 30_000), lambda: called.append(cuda)
        )
        cuda.launch(stream, kernel(1, 1_000, "b"))

    world = run(program)
    # a ends at 16 µs; 1 µs gap, 2 µs to wake, 30 µs of work, 1 µs gap.
    assert times(world) == [("a", 6_000, 16_000), ("b", 50_000, 51_000)]
    assert len(called) == 1


# Threads


def test_calls_of_two_threads_go_one_after_the_other() -> None:
    world = World(PLAIN)
    cuda = world.process(holds_interpreter=False)

    def main() -> None:
        cuda.launch(cuda.null_stream(0), kernel(1, 1_000))

    for number in (1, 2, 3):
        cuda.process.start(number, f"t{number}", main)
    world.run()
    assert [(row.thread, row.start_ns, row.end_ns) for row in world.log.api] == [
        (1, 0, 1_000), (2, 0, 2_000), (3, 0, 3_000),
    ]  # fmt: skip


def test_a_thread_that_waits_for_the_device_lets_others_call() -> None:
    world = World(PLAIN)
    cuda = world.process()

    def first() -> None:
        cuda.launch(cuda.null_stream(0), kernel(1, 50_000))
        cuda.synchronize_device(0)

    def second() -> None:
        cuda.process.work(500)
        cuda.launch(cuda.null_stream(0), kernel(1, 1_000))

    cuda.process.start(1, "first", first)
    cuda.process.start(2, "second", second)
    world.run()
    found = {(row.thread, row.name): (row.start_ns, row.end_ns) for row in world.log.api}
    assert found[1, "cudaDeviceSynchronize"] == (1_000, 57_000)
    # It has the interpreter from 1 µs on, when the first waits, and 2 µs to change hands.
    assert found[2, "cudaLaunchKernel"] == (3_500, 4_500)


def test_the_interpreter_changes_hands_after_5_ms() -> None:
    world = World(PLAIN)
    process = world.process().process
    ended = {}

    def main(number: int) -> None:
        process.work(12_000_000)
        ended[number] = process.now_ns()

    for number in (1, 2):
        process.start(number, f"t{number}", lambda number=number: main(number))  # type: ignore[misc]
    world.run()
    # 5, 5, 5, 5, 2, 2 ms, and 2 µs at each change of hands.
    assert ended == {1: 22_000_000 + 4 * 2_000, 2: 24_000_000 + 5 * 2_000}
