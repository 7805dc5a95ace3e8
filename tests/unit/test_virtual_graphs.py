"""Graphs on the virtual GPU: captured once, launched as one command, nodes in their order."""

from __future__ import annotations

import pytest

from overlapaudit_engine.sim.graphs import Graph
from overlapaudit_engine.sim.runtime import Runtime
from overlapaudit_engine.sim.streams import Stream
from overlapaudit_engine.sim.task import Release
from tests.virtual import kernel, plain, run, times


def chain(cuda: Runtime, stream: Stream) -> Graph:
    cuda.begin_capture(stream)
    for name in ("a", "b", "c"):
        cuda.launch(stream, kernel(1, 10_000, name))
    return cuda.end_capture(stream)


def test_a_replay_is_one_call_and_its_nodes_follow_each_other() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        graph = cuda.instantiate(chain(cuda, stream), 0)
        cuda.launch_graph(graph, stream)  # begins at 7 µs
        cuda.launch(stream, kernel(1, 1_000, "after"))

    world = run(program)
    # Nodes are 500 ns apart; the stream goes on 1 µs after the last.
    assert times(world) == [
        ("a", 12_000, 22_000), ("b", 22_500, 32_500), ("c", 33_000, 43_000),
        ("after", 44_000, 45_000),
    ]  # fmt: skip
    (launch,) = [row for row in world.log.api if row.name == "cudaGraphLaunch"]
    nodes = [row for row in world.log.kernels if row.graph_node is not None]
    assert {row.correlation for row in nodes} == {launch.correlation}
    (replay,) = world.log.graphs
    assert (replay.start_ns, replay.end_ns) == (12_000, 43_000)


def test_nodes_of_a_replay_are_clones_of_those_that_were_captured() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        graph = chain(cuda, stream)
        for _ in range(2):
            executable = cuda.instantiate(graph, 0)
            cuda.launch_graph(executable, stream)

    world = run(program)
    captured = [row.node for row in world.log.graph_nodes if row.original is None]
    assert captured == [1 << 32 | number for number in (1, 2, 3)]
    original = {row.node: row.original for row in world.log.graph_nodes if row.original}
    ran = [row.graph_node for row in world.log.kernels]
    assert ran == [2 << 32 | n for n in (1, 2, 3)] + [3 << 32 | n for n in (1, 2, 3)]
    assert [original[node] for node in ran if node is not None] == captured * 2
    # A node comes to be in the call that was captured.
    for row in world.log.graph_nodes[:3]:
        (call,) = [one for one in world.log.api if one.start_ns <= row.at_ns < one.end_ns]
        assert call.name == "cudaLaunchKernel"


def test_work_given_to_a_captured_stream_does_not_run() -> None:
    ran = []

    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.begin_capture(stream)
        assert cuda.is_capturing(stream)
        assert cuda.launch(stream, kernel(), lambda: ran.append(1)) is None
        graph = cuda.end_capture(stream)
        assert not cuda.is_capturing(stream)
        executable = cuda.instantiate(graph, 0)
        cuda.launch_graph(executable, stream)
        cuda.launch_graph(executable, stream)

    run(program)
    assert ran == [1, 1]


def test_a_fork_in_a_capture_runs_side_by_side() -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        fork, join = cuda.event(), cuda.event()
        cuda.begin_capture(a)
        cuda.launch(a, kernel(1, 10_000, "root"))
        cuda.record(fork, a)
        cuda.wait_event(b, fork)
        cuda.launch(b, kernel(1, 30_000, "side"))
        cuda.record(join, b)
        cuda.launch(a, kernel(1, 20_000, "main"))
        cuda.wait_event(a, join)
        cuda.launch(a, kernel(1, 1_000, "joined"))
        cuda.launch_graph(cuda.instantiate(cuda.end_capture(a), 0), a)

    world = run(program)
    start = times(world)[0][1]
    assert [(name, begin - start, end - start) for name, begin, end in times(world)] == [
        ("root", 0, 10_000), ("main", 10_500, 30_500), ("side", 10_500, 40_500),
        ("joined", 41_000, 42_000),
    ]  # fmt: skip
    streams = {row.work.name: row.stream for row in world.log.kernels}
    assert streams["root"] == streams["main"] == streams["joined"] == 13
    assert streams["side"] not in (13, 14)  # one of the driver's own
    joined = next(task for task in world.tasks if task.key.site.endswith("joined"))
    assert joined.ready_by is not None
    assert joined.ready_by.kind is Release.GRAPH
    assert joined.ready_by.task is not None
    assert joined.ready_by.task.key.site.endswith("side")


def test_a_capture_must_come_back_to_where_it_began() -> None:
    def program(cuda: Runtime) -> None:
        a, b = cuda.stream(0), cuda.stream(0)
        fork = cuda.event()
        cuda.begin_capture(a)
        cuda.launch(a, kernel())
        cuda.record(fork, a)
        cuda.wait_event(b, fork)
        cuda.launch(b, kernel())
        with pytest.raises(ValueError, match="not joined"):
            cuda.end_capture(a)

    run(program)


def test_a_graph_without_nodes_is_done_at_once() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.begin_capture(stream)
        graph = cuda.end_capture(stream)
        cuda.launch_graph(cuda.instantiate(graph, 0), stream)
        cuda.launch(stream, kernel(1, 1_000))

    world = run(program)
    assert len(times(world)) == 1


def test_the_launch_of_a_graph_costs_for_each_node() -> None:
    def program(cuda: Runtime) -> None:
        stream = cuda.stream(0)
        cuda.launch_graph(cuda.instantiate(chain(cuda, stream), 0), stream)

    world = run(program, plain(graph_node_ns=10))
    (launch,) = [row for row in world.log.api if row.name == "cudaGraphLaunch"]
    assert launch.end_ns - launch.start_ns == 1_030
