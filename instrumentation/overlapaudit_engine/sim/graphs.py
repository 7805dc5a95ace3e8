"""CUDA graphs: captured nodes with what they wait for, and replays as one command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from overlapaudit_engine.sim.streams import Stream
from overlapaudit_engine.sim.task import NEVER, Cause, Release, Task
from overlapaudit_engine.sim.timeline import Timeline
from overlapaudit_engine.work import Key, Work

# A graph's nodes are numbered within it, the graph in the upper half.
_GRAPH_SHIFT = 32


@dataclass(frozen=True, slots=True)
class Node:
    """An operation in a graph; `after` are the numbers of the nodes that it waits for."""

    work: Work
    site: str
    after: tuple[int, ...]
    lane: int
    function: Callable[[], object] | None = None
    group: str | None = None


@dataclass(slots=True)
class Graph:
    """What was captured; `lanes` are chains of nodes that may run beside each other."""

    number: int
    nodes: list[Node] = field(default_factory=list)
    lanes: int = 1

    def id_of(self, node: int) -> int:
        """Give the id that a profiler shows for a node."""
        return self.number << _GRAPH_SHIFT | node + 1


@dataclass(slots=True)
class Executable:
    """A graph that can be launched: a clone with node ids of its own."""

    number: int
    graph: Graph
    streams: list[Stream]

    def id_of(self, node: int) -> int:
        """Give the id of the clone of a node."""
        return self.number << _GRAPH_SHIFT | node + 1


@dataclass(frozen=True, slots=True)
class GraphLaunch:
    """The work of a launch."""

    executable: Executable


@dataclass(slots=True)
class Replay:
    """A launch under way.

    Attributes:
        tasks: of its nodes, in the order of the graph.
    """

    timeline: Timeline
    launch: Task
    executable: Executable
    begin: Callable[[Task], None]
    gap: Callable[[Task, Release], int]
    key_of: Callable[[str], Key]
    node_ns: int
    on_end: Callable[[Task], None]
    tasks: list[Task] = field(default_factory=list)
    _left: int = 0

    def start(self) -> None:
        """Begin the nodes that wait for none."""
        executable, launch = self.executable, self.launch
        nodes = executable.graph.nodes
        self._left = len(nodes)
        launch.start_ns = self.timeline.now_ns
        if not nodes:
            self.on_end(launch)
            return
        for number, node in enumerate(nodes):
            stream = launch.stream if node.lane == 0 else executable.streams[node.lane - 1]
            task = Task(
                launch.number, stream, node.work, self.key_of(node.site), launch.call,
                launch.correlation, launch.arrive_ns, function=node.function, group=node.group,
                graph_node=executable.id_of(number), graph=executable.number,
            )  # fmt: skip
            task.after = [(self.tasks[other], Release.GRAPH) for other in node.after]
            self.tasks.append(task)
        for task in self.tasks:
            task.when_done.append(self._ended)
            if not task.after:
                task.ready_by = launch.ready_by
                self._ready(task)
            else:
                for other, _ in task.after:
                    other.when_done.append(partial(self._maybe, task))

    def _maybe(self, task: Task) -> None:
        if task.ready_by is not None or not all(other.done for other, _ in task.after):
            return
        causes = [
            Cause(Release.GRAPH, other, at_ns=other.end_ns + self.gap(task, Release.GRAPH))
            for other, _ in task.after
        ]
        task.ready_by = max(causes, key=lambda cause: cause.at_ns)
        self.timeline.at(task.ready_by.at_ns + self.node_ns, lambda: self._ready(task))

    def _ready(self, task: Task) -> None:
        task.ready_ns = self.timeline.now_ns
        self.begin(task)

    def _ended(self) -> None:
        self._left -= 1
        if self._left == 0:
            assert self.launch.end_ns == NEVER
            self.on_end(self.launch)
