"""Copy engines: one for each direction, each with one copy at a time, in order of readiness."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from overlapaudit_engine.hardware.hardware import Hardware
from overlapaudit_engine.sim.laws import Load, Resource
from overlapaudit_engine.sim.running import Running, Runs
from overlapaudit_engine.sim.task import Cause, Release, Task
from overlapaudit_engine.work import CopyWay, CopyWork, Memory, MemsetWork


@dataclass(slots=True)
class Engine:
    """One engine."""

    runs: Runs
    on_end: Callable[[Task], None]
    _queue: deque[tuple[Task, int, Load, float]] = field(default_factory=deque)
    _at_work: Task | None = None

    def add(self, task: Task, base_ns: int, load: Load, lasts_ns: float) -> None:
        """Take a copy: after `base_ns` it moves for `lasts_ns` at its natural speed."""
        self._queue.append((task, base_ns, load, lasts_ns))
        if self._at_work is None:
            self._next()

    def _next(self) -> None:
        if not self._queue:
            return
        task, base_ns, load, lasts_ns = self._queue.popleft()
        self._at_work = task
        timeline = self.runs.timeline
        task.start_ns = timeline.now_ns
        timeline.at(timeline.now_ns + base_ns, lambda: self._move(task, load, lasts_ns))

    def _move(self, task: Task, load: Load, lasts_ns: float) -> None:
        if lasts_ns <= 0:
            self._done(task)
            return

        def reached(running: Running) -> None:
            self.runs.end(running)
            self._done(task)

        self.runs.begin(load, lasts_ns, reached)

    def _done(self, task: Task) -> None:
        self._at_work = None
        if self._queue:
            self._queue[0][0].started_by = Cause(
                Release.ENGINE, task, at_ns=self.runs.timeline.now_ns
            )
        self._next()
        self.on_end(task)


@dataclass(slots=True)
class Engines:
    """The engines of one device; copies inside the device and memsets have one of their own."""

    hardware: Hardware
    device: int
    runs: Runs
    on_end: Callable[[Task], None]
    _engines: dict[str, Engine] = field(default_factory=dict)

    def copy(self, task: Task, work: CopyWork, base_ns: int, factor: float) -> None:
        """Take a copy that is ready."""
        rate, uses = self._rate_and_uses(work)
        lasts_ns = work.size / rate * factor
        self._engine(work.way.value).add(task, base_ns, Load(uses, reads=_reads(work)), lasts_ns)

    def memset(self, task: Task, work: MemsetWork, base_ns: int, factor: float) -> None:
        """Take a memset that is ready."""
        rate = self.hardware.hbm_rate * self.hardware.hbm_share
        load = Load({Resource("hbm", self.device): rate}, reads=0.0)
        self._engine("memset").add(task, base_ns, load, work.size / rate * factor)

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            self._engines[name] = Engine(self.runs, self.on_end)
        return self._engines[name]

    def _rate_and_uses(self, work: CopyWork) -> tuple[float, dict[Resource, float]]:
        hardware, here = self.hardware, self.device
        pageable = Memory.PAGEABLE in (work.source, work.destination)
        if work.way is CopyWay.H2D or work.way is CopyWay.D2H:
            link = hardware.pcie_h2d if work.way is CopyWay.H2D else hardware.pcie_d2h
            rate = min(link, hardware.pageable_rate) if pageable else link
            return rate, {Resource(work.way.value, here): rate, Resource("hbm", here): rate}
        if work.way is CopyWay.P2P and work.peer is not None:
            rate = hardware.link_rate
            return rate, {
                Resource("link_out", here): rate,
                Resource("link_in", work.peer): rate,
                Resource("hbm", here): rate,
                Resource("hbm", work.peer): rate,
            }
        if work.way is CopyWay.H2H:
            return hardware.pageable_rate, {}
        # Bytes are counted once, and both read and written.
        rate = hardware.d2d_rate
        return rate, {Resource("hbm", here): 2 * rate}


def _reads(work: CopyWork) -> float:
    """Give the share of its HBM traffic on this device that is read."""
    return {CopyWay.H2D: 0.0, CopyWay.D2H: 1.0, CopyWay.P2P: 1.0}.get(work.way, 0.5)
