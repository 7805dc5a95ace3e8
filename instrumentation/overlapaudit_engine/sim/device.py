"""One virtual GPU: it takes commands that may begin, and notes when they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlapaudit_engine.hardware.hardware import Hardware
from overlapaudit_engine.sim.collectives import Collectives
from overlapaudit_engine.sim.draws import Draws
from overlapaudit_engine.sim.engines import Engines
from overlapaudit_engine.sim.graphs import GraphLaunch, Replay
from overlapaudit_engine.sim.laws import Law
from overlapaudit_engine.sim.running import Runs
from overlapaudit_engine.sim.sms import Sms
from overlapaudit_engine.sim.streams import pass_on
from overlapaudit_engine.sim.task import Release, Task
from overlapaudit_engine.work import (
    CollectiveWork,
    CopyWork,
    HostFunctionWork,
    KernelWork,
    Key,
    MemsetWork,
)

Ended = Callable[[Task], None]


@dataclass(slots=True)
class Device:
    """A device; `ended` is told of all work that ran, replays and their nodes included."""

    number: int
    hardware: Hardware
    noise: Draws
    runs: Runs
    law: Law
    collectives: Collectives
    ended: Ended
    node_ns: int = 0
    sms: Sms = field(init=False)
    engines: Engines = field(init=False)

    def __post_init__(self) -> None:
        """Make its parts."""
        self.sms = Sms(self.hardware, self.number, self.runs, self.law, self._end)
        self.engines = Engines(self.hardware, self.number, self.runs, self._end)

    def gap(self, task: Task, kind: Release) -> int:
        """Give how long after what it waited for a command begins."""
        hardware = self.hardware
        spread = {
            Release.STREAM: hardware.stream_gap,
            Release.GRAPH: hardware.graph_gap,
        }.get(kind, hardware.event_gap)
        return self.noise.cost(_about(task.key, kind.value), spread)

    def begin(self, task: Task) -> None:
        """Take a command that may begin."""
        work, noise = task.work, self.noise
        if work is None:
            pass_on(task, self.runs.timeline.now_ns)
        elif isinstance(work, KernelWork):
            self.sms.add(task, work, noise.factor(task.key))
        elif isinstance(work, CollectiveWork):
            self.collectives.add(task, work, noise.factor(task.key), self.sms)
        elif isinstance(work, CopyWork):
            base_ns = noise.cost(_about(task.key, "base"), self.hardware.copy_base)
            self.engines.copy(task, work, base_ns, noise.factor(task.key))
        elif isinstance(work, MemsetWork):
            base_ns = noise.cost(_about(task.key, "base"), self.hardware.memset_base)
            self.engines.memset(task, work, base_ns, noise.factor(task.key))
        elif isinstance(work, HostFunctionWork):
            self._call_host(task, work)
        else:
            self._replay(task, work)

    def _call_host(self, task: Task, work: HostFunctionWork) -> None:
        timeline = self.runs.timeline
        woken_ns = timeline.now_ns + self.noise.cost(
            _about(task.key, "wake_up"), self.hardware.wake_up
        )
        task.start_ns = woken_ns
        lasts_ns = int(work.host_ns * self.noise.factor(task.key))
        timeline.at(woken_ns + lasts_ns, lambda: self._end(task))

    def _replay(self, task: Task, work: GraphLaunch) -> None:
        seen: dict[str, int] = {}

        def key_of(site: str) -> Key:
            number = seen.get(site, 0)
            seen[site] = number + 1
            name = f"{task.key.site}#{task.key.number}/{site}"
            return Key(task.key.rank, task.key.iteration, name, number)

        Replay(
            self.runs.timeline, task, work.executable, self.begin, self.gap, key_of,
            self.node_ns, self._end,
        ).start()  # fmt: skip

    def _end(self, task: Task) -> None:
        now_ns = self.runs.timeline.now_ns
        task.done_stream_ns, task.stream_by = now_ns, task
        task.end_ns = now_ns
        self.ended(task)
        task.finish(now_ns)


def _about(key: Key, what: str) -> Key:
    return Key(key.rank, key.iteration, f"{key.site}:{what}", key.number)
