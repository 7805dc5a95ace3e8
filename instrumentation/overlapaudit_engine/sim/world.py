"""A run: devices, processes and their threads on one timeline, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlapaudit_engine.hardware.hardware import Hardware
from overlapaudit_engine.sim.collectives import Collectives
from overlapaudit_engine.sim.device import Device
from overlapaudit_engine.sim.draws import Draws, Planned
from overlapaudit_engine.sim.graphs import GraphLaunch
from overlapaudit_engine.sim.laws import Fair, Law, Resource
from overlapaudit_engine.sim.log import (
    CopyRow,
    GraphRow,
    KernelRow,
    MemsetRow,
    ProcessInfo,
    RunLog,
    StreamInfo,
)
from overlapaudit_engine.sim.process import Process, Tracing
from overlapaudit_engine.sim.running import Runs, Sharing
from overlapaudit_engine.sim.runtime import Runtime
from overlapaudit_engine.sim.task import Task
from overlapaudit_engine.sim.timeline import Timeline
from overlapaudit_engine.work import CollectiveWork, CopyWork, KernelWork, MemsetWork

_FIRST_PID = 4000


@dataclass(slots=True)
class World:
    """All of it. Make processes, start their threads, then `run`.

    Attributes:
        hardware: of every device.
        devices: how many there are.
        noise: what varies.
        law: of contention; `Fair` if none is named.
        tracing: what being recorded costs.
        watch: told of each sharing of resources, for tests and samples.
        tasks: all work that ran, in order of ending.
    """

    hardware: Hardware
    devices: int = 1
    noise: Draws = field(default_factory=Planned)
    law: Law = field(default_factory=Fair)
    tracing: Tracing = field(default_factory=Tracing)
    watch: Callable[[Sharing], None] | None = None
    timeline: Timeline = field(default_factory=Timeline)
    log: RunLog = field(default_factory=RunLog)
    tasks: list[Task] = field(default_factory=list)
    collectives: Collectives = field(init=False)
    processes: list[Process] = field(default_factory=list)
    _devices: dict[int, Device] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the devices."""
        runs = Runs(self.timeline, self.law, self._capacities(), self.watch)
        self.collectives = Collectives(self.hardware, runs)
        for number in range(self.devices):
            self._devices[number] = Device(
                number, self.hardware, self.noise, runs, self.law, self.collectives, self._ended,
                self.tracing.node_ns,
            )  # fmt: skip

    def process(
        self,
        devices: tuple[int, ...] = (0,),
        *,
        connections: int = 8,
        holds_interpreter: bool = True,
    ) -> Runtime:
        """Make a process that uses these devices; give its CUDA runtime."""
        rank = len(self.processes)
        process = Process(
            rank, self.timeline, self.hardware, self.noise,
            {number: self._devices[number] for number in devices}, self.log, connections,
            self.tracing, holds_interpreter,
        )  # fmt: skip
        self.processes.append(process)
        for stream in process.streams:
            self.log.streams.append(
                StreamInfo(
                    rank, stream.device, stream.context, stream.number, stream.priority,
                    stream.non_blocking, stream.is_null,
                )
            )  # fmt: skip
        return Runtime(process)

    def run(self) -> RunLog:
        """Let everything happen; give what was to be seen.

        Raises:
            Stuck: threads wait for what never comes.
        """
        try:
            self.timeline.finish()
        finally:
            self.log.end_ns = self.timeline.now_ns
            self.log.processes = [
                ProcessInfo(
                    process.rank,
                    _FIRST_PID + process.rank,
                    "python",
                    0,
                    {thread.number: thread.name for thread in process.threads.values()},
                    tuple(process.devices),
                )
                for process in self.processes
            ]
        return self.log

    def _capacities(self) -> dict[Resource, float]:
        hardware = self.hardware
        rates = {
            "hbm": hardware.hbm_rate * hardware.hbm_share,
            "h2d": hardware.pcie_h2d,
            "d2h": hardware.pcie_d2h,
            "link_out": hardware.link_rate,
            "link_in": hardware.link_rate,
            "nic_out": hardware.nic_rate,
            "nic_in": hardware.nic_rate,
        }
        return {
            Resource(kind, device): rate
            for device in range(self.devices)
            for kind, rate in rates.items()
        }

    def _ended(self, task: Task) -> None:
        """Note work that ran."""
        self.tasks.append(task)
        work, stream, log = task.work, task.stream, self.log
        place = (stream.process, stream.device, stream.context, stream.number, task.correlation)
        times = (task.start_ns, task.end_ns)
        if isinstance(work, KernelWork | CollectiveWork):
            process = self.processes[stream.process]
            process.grids += 1
            log.kernels.append(
                KernelRow(*place, *times, work, process.grids, task.graph_node, task.graph)
            )
        elif isinstance(work, CopyWork):
            log.copies.append(
                CopyRow(
                    *place, *times, work.way, work.size, work.source, work.destination, work.peer,
                    task.graph_node,
                )
            )  # fmt: skip
        elif isinstance(work, MemsetWork):
            log.memsets.append(MemsetRow(*place, *times, work.size, work.value, task.graph_node))
        elif isinstance(work, GraphLaunch):
            executable = work.executable
            log.graphs.append(GraphRow(*place, *times, executable.graph.number, executable.number))
