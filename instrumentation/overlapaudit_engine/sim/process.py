"""A process: its threads, what it has made on its devices, and what its calls cost it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from overlapaudit_engine.hardware.hardware import Hardware
from overlapaudit_engine.sim.device import Device
from overlapaudit_engine.sim.draws import Draws
from overlapaudit_engine.sim.locks import SWITCH_INTERVAL_NS, Driver, Interpreter
from overlapaudit_engine.sim.log import ApiRow, OverheadKind, OverheadRow, RunLog
from overlapaudit_engine.sim.streams import Queue, Stream
from overlapaudit_engine.sim.task import NEVER, Task
from overlapaudit_engine.sim.timeline import Timeline, Waiter
from overlapaudit_engine.work import Key

_NULL_STREAM = 7  # as profilers number it in a first context
_FIRST_STREAM = 13
_CONTEXT = 1


@dataclass(frozen=True, slots=True)
class Tracing:
    """What being recorded costs a run.

    Attributes:
        node_ns: of each node of a graph that is recorded node by node.
        flush_every: calls of a process between two pauses in which records are written away.
        flush_ns: such a pause.
    """

    node_ns: int = 0
    flush_every: int | None = None
    flush_ns: int = 0


@dataclass(slots=True, eq=False)
class HostThread:
    """A thread: `clock_ns` is up to when it has worked, `iteration` the engine's step it is in."""

    number: int
    name: str
    waiter: Waiter
    clock_ns: int
    iteration: int = -1


@dataclass(slots=True)
class Call:
    """A call under way, and when it is over.

    Attributes:
        number: the row of the call.
        entered_ns: when the thread called; it may have waited for a lock after that.
        begin_ns: when the call began.
        until_ns: when it returns.
        waited_for: the work whose end it waited for last.
        waited_until_ns: when that ended.
        has_driver: whether it still holds the driver's lock.
        result: what it returns.
    """

    number: int
    thread: HostThread
    correlation: int
    entered_ns: int
    begin_ns: int
    until_ns: int
    result: int = 0
    waited_for: Task | None = None
    waited_until_ns: int = NEVER
    has_driver: bool = True


@dataclass(slots=True, eq=False)
class Process:
    """A process of the run; its rank is its number."""

    rank: int
    timeline: Timeline
    hardware: Hardware
    noise: Draws
    devices: dict[int, Device]
    log: RunLog
    connections: int = 8
    tracing: Tracing = field(default_factory=Tracing)
    holds_interpreter: bool = True
    streams: list[Stream] = field(default_factory=list)
    threads: dict[int, HostThread] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    loaded: set[str] = field(default_factory=set)
    correlation: int = 0
    records: int = 0
    grids: int = 0
    interpreter: Interpreter = field(init=False)
    driver: Driver = field(init=False)
    _of_waiter: dict[int, HostThread] = field(default_factory=dict)
    _queues: dict[tuple[int, int, int], Queue] = field(default_factory=dict)
    _seen: dict[tuple[int, str], int] = field(default_factory=dict)
    _since_flush: int = 0

    def __post_init__(self) -> None:
        """Make its locks and default streams."""
        hand_over_ns = self.hardware.wake_up.p50
        self.interpreter = Interpreter(self.timeline, hand_over_ns)
        self.driver = Driver(self.timeline)
        for device in self.devices:
            self.make_stream(device, priority=0, non_blocking=False, is_null=True)

    def start(
        self, number: int, name: str, function: Callable[[], object], at_ns: int | None = None
    ) -> Waiter:
        """Start a thread that runs a function."""
        at_ns = self.timeline.now_ns if at_ns is None else at_ns

        def run() -> None:
            thread = HostThread(number, name, self.timeline.here, self.timeline.now_ns)
            self.threads[number] = thread
            self._of_waiter[id(thread.waiter)] = thread
            function()
            self.timeline.wait_until(thread.clock_ns)
            self.interpreter.give()

        return self.timeline.start(f"rank {self.rank}, {name}", run, at_ns)

    @property
    def here(self) -> HostThread:
        """The thread that runs now."""
        return self._of_waiter[id(self.timeline.here)]

    def make_stream(
        self, device: int, *, priority: int, non_blocking: bool, is_null: bool = False
    ) -> Stream:
        """Make a stream, on a hardware queue that it may share."""
        of_device = [one for one in self.streams if one.device == device]
        number = _NULL_STREAM if is_null else _FIRST_STREAM + len(of_device) - 1
        slot = (len(of_device) + self.connections - 1) % self.connections
        key = (device, priority, slot)
        if key not in self._queues:
            on = self.devices[device]
            self._queues[key] = Queue(self.timeline, on.gap, on.begin, self.hardware.queue_depth)
        stream = Stream(
            number, self.rank, device, _CONTEXT, priority, non_blocking, is_null, self._queues[key]
        )
        self.streams.append(stream)
        return stream

    def null_stream(self, device: int) -> Stream:
        """Give the legacy default stream of a device."""
        return next(one for one in self.streams if one.device == device and one.is_null)

    def key(self, site: str) -> Key:
        """Give the key of the next piece of work at a site, in this thread's iteration."""
        iteration = self.here.iteration
        number = self._seen.get((iteration, site), 0)
        self._seen[iteration, site] = number + 1
        return Key(self.rank, iteration, site, number)

    def begin_iteration(self, number: int) -> None:
        """Say that this thread works on an iteration from now on."""
        self.here.iteration = number

    def work(self, lasts_ns: int, site: str = "host") -> None:
        """Let the thread compute for a while."""
        thread = self.here
        lasts_ns = int(lasts_ns * self.noise.factor(self.key(f"{thread.name}:{site}")))
        while lasts_ns > 0:
            piece = min(lasts_ns, SWITCH_INTERVAL_NS) if self.holds_interpreter else lasts_ns
            self._come_to(thread)
            thread.clock_ns += piece
            lasts_ns -= piece

    def pause(self, lasts_ns: int) -> None:
        """Let the thread sleep."""
        thread = self.here
        self._come_to(thread)
        if self.holds_interpreter:
            self.interpreter.give()
        thread.clock_ns += lasts_ns

    def now_ns(self) -> int:
        """Give the time of the thread that runs."""
        return self.here.clock_ns

    def overhead(self, start_ns: int, end_ns: int, kind: OverheadKind, call: Call | None) -> None:
        """Note time that was not the thread's work."""
        self.log.overheads.append(
            OverheadRow(
                self.rank, self.here.number, start_ns, end_ns, kind,
                None if call is None else call.correlation,
            )
        )  # fmt: skip

    @contextmanager
    def call(self, name: str, *, driver: bool = False) -> Iterator[Call]:
        """Make a call: what is inside happens when it begins, with all that came before done."""
        thread = self.here
        self._come_to(thread)
        entered_ns = self.timeline.now_ns
        self.driver.take()
        begin_ns = self.timeline.now_ns
        self.correlation += 1
        cost_ns = self.noise.cost(self.key(f"{thread.name}:{name}"), self.hardware.call(name))
        call = Call(
            len(self.log.api), thread, self.correlation, entered_ns, begin_ns, begin_ns + cost_ns
        )
        row = ApiRow(self.rank, thread.number, name, entered_ns, 0, call.correlation, driver=driver)
        self.log.api.append(row)
        self.calls.append(call)
        yield call
        row.end_ns, row.result = call.until_ns, call.result
        if call.has_driver:
            self.driver.hold_until(call.until_ns)
        thread.clock_ns = call.until_ns
        self._flush(thread)

    def wait_for(self, call: Call, tasks: list[Task], *, keeps_driver: bool = False) -> None:
        """Let a call wait until all of these have ended; ended ones cost nothing."""
        pending = [task for task in tasks if not task.done]
        if not pending:
            return
        if not keeps_driver and call.has_driver:
            self.driver.hold_until(call.until_ns)
            call.has_driver = False
        if self.holds_interpreter:
            self.interpreter.give()
        left = len(pending)
        me = self.timeline.here

        def ended() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.timeline.wake(me)

        for task in pending:
            task.when_done.append(ended)
        self.timeline.wait()
        last = max(pending, key=lambda task: task.end_ns)
        wake_up_ns = self.noise.cost(self.key(f"{call.thread.name}:wake_up"), self.hardware.wake_up)
        call.waited_for, call.waited_until_ns = last, last.end_ns
        call.until_ns = max(call.until_ns, last.end_ns + wake_up_ns)

    def _come_to(self, thread: HostThread) -> None:
        """Let happen all that happens before this thread goes on."""
        self.timeline.wait_until(thread.clock_ns)
        if self.holds_interpreter:
            self.interpreter.take()
        thread.clock_ns = self.timeline.now_ns

    def _flush(self, thread: HostThread) -> None:
        """Pause where the profiler writes its records away."""
        if self.tracing.flush_every is None:
            return
        self._since_flush += 1
        if self._since_flush >= self.tracing.flush_every:
            self._since_flush = 0
            start_ns = thread.clock_ns
            thread.clock_ns += self.tracing.flush_ns
            self.overhead(start_ns, thread.clock_ns, OverheadKind.BUFFER_FLUSH, None)
