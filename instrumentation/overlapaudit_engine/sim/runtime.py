"""The CUDA runtime of a process: its calls, with what each waits for and costs.

What a call does to streams happens when it begins; it reaches the device a launch latency later.
(CUDA C++ Programming Guide: streams, events, default stream; API synchronization behavior.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlapaudit_engine.sim.capture import Capture
from overlapaudit_engine.sim.graphs import Executable, Graph, GraphLaunch
from overlapaudit_engine.sim.log import (
    EventRow,
    GraphCreated,
    GraphNodeCreated,
    MemoryRow,
    OverheadKind,
    StreamInfo,
    SyncKind,
    SyncRow,
)
from overlapaudit_engine.sim.process import Call, Process
from overlapaudit_engine.sim.streams import Stream
from overlapaudit_engine.sim.task import Release, Task
from overlapaudit_engine.work import (
    CollectiveWork,
    CopyWay,
    CopyWork,
    HostFunctionWork,
    KernelWork,
    Memory,
    MemsetWork,
    Work,
)

NOT_READY = 600  # cudaErrorNotReady

# Up to this size a pageable copy to the device is staged within the call.
_STAGED_AT_ONCE = 64 * 1024

Function = Callable[[], object]


@dataclass(slots=True, eq=False)
class Event:
    """A CUDA event: what it was recorded after, and the number of that record."""

    number: int
    last: Task | None = None
    record: int | None = None
    capture: Capture | None = None
    captured_after: tuple[int, ...] = ()


@dataclass(slots=True)
class Runtime:
    """The calls. The thread that calls is the one that runs."""

    process: Process
    _captures: dict[int, Capture] = field(default_factory=dict)
    _allocated: dict[int, tuple[int, int, Memory]] = field(default_factory=dict)
    _events: int = 0
    _graphs: int = 0
    _tasks: int = 0
    _next_address: int = 0x7F00_0000_0000

    # Streams and events

    def stream(self, device: int, *, priority: int = 0, non_blocking: bool = True) -> Stream:
        """Make a stream; lower numbers have priority."""
        with self.process.call("cudaStreamCreateWithPriority"):
            stream = self.process.make_stream(device, priority=priority, non_blocking=non_blocking)
            self._tell(stream)
            return stream

    def null_stream(self, device: int) -> Stream:
        """Give the legacy default stream of a device."""
        return self.process.null_stream(device)

    def event(self) -> Event:
        """Make an event."""
        with self.process.call("cudaEventCreateWithFlags"):
            self._events += 1
            return Event(self._events)

    def record(self, event: Event, stream: Stream) -> None:
        """Record an event in a stream."""
        process = self.process
        with process.call("cudaEventRecord") as call:
            capture = self._captures.get(id(stream))
            if capture is not None:
                event.capture, event.captured_after = capture, capture.last_of(stream)
                return
            process.records += 1
            event.capture, event.record = None, process.records
            event.last = self._submit(call, stream, None, "record")
            row = EventRow(
                process.rank, stream.device, stream.context, stream.number, call.correlation,
                event.number, process.records,
            )  # fmt: skip
            process.log.events.append(row)
            task = event.last

            def done() -> None:
                row.done_ns = task.end_ns

            task.when_done.append(done)

    def wait_event(self, stream: Stream, event: Event) -> None:
        """Let what comes next in a stream wait for an event's last record, if it has one."""
        with self.process.call("cudaStreamWaitEvent") as call:
            if event.capture is not None:
                event.capture.join(stream, event.captured_after)
                self._captures[id(stream)] = event.capture
                return
            self._note_sync(call, SyncKind.STREAM_WAIT, stream=stream, event=event)
            if event.last is not None:
                self._submit(call, stream, None, "wait", [(event.last, Release.EVENT)])

    def query_event(self, event: Event) -> bool:
        """Ask whether an event's last record has ended."""
        with self.process.call("cudaEventQuery") as call:
            done = event.last is None or event.last.done
            call.result = 0 if done else NOT_READY
            self._note_sync(call, SyncKind.EVENT_QUERY, event=event)
            return done

    def synchronize_event(self, event: Event) -> None:
        """Wait until an event's last record has ended."""
        with self.process.call("cudaEventSynchronize") as call:
            self.process.wait_for(call, [] if event.last is None else [event.last])
            self._note_sync(call, SyncKind.EVENT_SYNC, event=event)

    def synchronize_stream(self, stream: Stream) -> None:
        """Wait until all work of a stream has ended."""
        with self.process.call("cudaStreamSynchronize") as call:
            self.process.wait_for(call, [] if stream.last is None else [stream.last])
            self._note_sync(call, SyncKind.STREAM_SYNC, stream=stream)

    def synchronize_device(self, device: int) -> None:
        """Wait until all work of this process on a device has ended."""
        with self.process.call("cudaDeviceSynchronize") as call:
            self.process.wait_for(call, self._all_last(device))
            self._note_sync(call, SyncKind.DEVICE_SYNC, device=device)

    # Work

    def launch(
        self,
        stream: Stream,
        work: KernelWork | CollectiveWork,
        function: Function | None = None,
        *,
        group: str | None = None,
        name: str = "cudaLaunchKernel",
    ) -> Task | None:
        """Launch a kernel; give its task, None while its stream is captured.

        Args:
            stream: where.
            work: what it asks for.
            function: run when the kernel ends, for its results.
            group: the communicator of a collective.
            name: the call ("cudaLaunchKernelExC", "cuLaunchKernelEx").
        """
        process = self.process
        with process.call(name, driver=name.startswith("cu") and name[2].isupper()) as call:
            if work.name not in process.loaded:
                process.loaded.add(work.name)
                self._load(call)
            return self._put(call, stream, work, function, group=group)

    def copy(self, stream: Stream, work: CopyWork, function: Function | None = None) -> Task | None:
        """Copy asynchronously, as far as the memory lets it."""
        with self.process.call("cudaMemcpyAsync") as call:
            if Memory.PAGEABLE not in (work.source, work.destination):
                return self._put(call, stream, work, function)
            return self._copy_pageable(call, stream, work, function)

    def copy_and_wait(
        self, work: CopyWork, device: int, function: Function | None = None
    ) -> Task | None:
        """Copy synchronously, in the legacy default stream."""
        process = self.process
        with process.call("cudaMemcpy") as call:
            stream = process.null_stream(device)
            if work.way is CopyWay.H2D and work.source is Memory.PAGEABLE:
                return self._copy_pageable(call, stream, work, function)
            task = self._put(call, stream, work, function)
            if task is not None and work.way is not CopyWay.D2D:
                process.wait_for(call, [task])
            return task

    def memset(
        self, stream: Stream, work: MemsetWork, function: Function | None = None
    ) -> Task | None:
        """Set device memory."""
        with self.process.call("cudaMemsetAsync") as call:
            return self._put(call, stream, work, function)

    def host_function(self, stream: Stream, work: HostFunctionWork, function: Function) -> None:
        """Let the driver call a function in the order of a stream."""
        with self.process.call("cudaLaunchHostFunc") as call:
            self._put(call, stream, work, function)

    # Memory

    def allocate(self, device: int, size: int, memory: Memory = Memory.DEVICE) -> int:
        """Allocate device or pinned memory; give its address."""
        pinned = memory is Memory.PINNED
        with self.process.call("cudaHostAlloc" if pinned else "cudaMalloc") as call:
            address = self._next_address
            self._next_address += -(-size // 512) * 512
            self._allocated[address] = (device, size, memory)
            self._note_memory(call, address, allocates=True)
            return address

    def free(self, address: int) -> None:
        """Free memory; waits for all work on its device, as the driver does."""
        device, _, memory = self._allocated[address]
        pinned = memory is Memory.PINNED
        with self.process.call("cudaFreeHost" if pinned else "cudaFree") as call:
            self.process.wait_for(call, self._all_last(device), keeps_driver=True)
            self._note_memory(call, address, allocates=False)
            del self._allocated[address]

    # Graphs

    def begin_capture(self, stream: Stream) -> None:
        """Let work given to a stream be captured from now on."""
        with self.process.call("cudaStreamBeginCapture"):
            self._graphs += 1
            self._captures[id(stream)] = Capture(Graph(self._graphs), stream)

    def end_capture(self, stream: Stream) -> Graph:
        """End a capture where it began.

        Raises:
            ValueError: nothing is captured there, or other streams were not joined again.
        """
        process = self.process
        with process.call("cudaStreamEndCapture") as call:
            capture = self._captures.get(id(stream))
            if capture is None or capture.origin is not stream:
                raise ValueError("no capture began in this stream")
            capture.check_joined()
            self._captures = {
                key: other for key, other in self._captures.items() if other is not capture
            }
            graph, thread = capture.graph, call.thread.number
            process.log.graphs_created.append(
                GraphCreated(process.rank, thread, call.begin_ns, graph.number, None, None)
            )
            graph.lanes = capture.lanes
            return graph

    def is_capturing(self, stream: Stream) -> bool:
        """Ask whether work given to a stream is captured."""
        with self.process.call("cudaStreamIsCapturing"):
            return id(stream) in self._captures

    def instantiate(self, graph: Graph, device: int) -> Executable:
        """Make a graph that can be launched."""
        process = self.process
        with process.call("cudaGraphInstantiate") as call:
            self._graphs += 1
            streams = [
                process.make_stream(device, priority=0, non_blocking=True)
                for _ in range(graph.lanes - 1)
            ]
            executable = Executable(self._graphs, graph, streams)
            call.until_ns += len(graph.nodes) * process.hardware.graph_node_ns
            thread, at_ns = call.thread.number, call.begin_ns
            for number in range(len(graph.nodes)):
                process.log.graph_nodes.append(
                    GraphNodeCreated(
                        process.rank, thread, at_ns, executable.id_of(number), graph.id_of(number)
                    )
                )
            process.log.graphs_created.append(
                GraphCreated(
                    process.rank, thread, at_ns, executable.number, graph.number, executable.number
                )
            )
            for one in streams:
                self._tell(one)
            return executable

    def launch_graph(self, executable: Executable, stream: Stream) -> Task | None:
        """Launch a graph: one call, one command."""
        with self.process.call("cudaGraphLaunch") as call:
            nodes = len(executable.graph.nodes)
            call.until_ns += nodes * self.process.hardware.graph_node_ns
            return self._put(call, stream, GraphLaunch(executable), None)

    # What calls have in common

    def _put(
        self,
        call: Call,
        stream: Stream,
        work: Work | GraphLaunch,
        function: Function | None,
        *,
        group: str | None = None,
    ) -> Task | None:
        """Give work to a stream, or to the graph that is captured there."""
        capture = self._captures.get(id(stream))
        if capture is None:
            task = self._submit(call, stream, work, _site(work), function=function)
            task.group = group
            return task
        if isinstance(work, GraphLaunch):
            raise ValueError("a graph within a graph is not modelled")
        node = capture.add(stream, work, _site(work), function, group)
        self.process.log.graph_nodes.append(
            GraphNodeCreated(
                self.process.rank,
                call.thread.number,
                call.begin_ns,
                capture.graph.id_of(node),
                None,
            )
        )
        return None

    def _submit(
        self,
        call: Call,
        stream: Stream,
        work: Work | GraphLaunch | None,
        site: str,
        after: list[tuple[Task, Release]] | None = None,
        function: Function | None = None,
    ) -> Task:
        process = self.process
        self._wait_for_room(call, stream)
        self._tasks += 1
        hardware = process.hardware
        key = process.key(f"{stream.number}:{site}")
        latency = hardware.copy_latency if isinstance(work, CopyWork) else hardware.launch_latency
        arrive_ns = max(call.begin_ns, process.timeline.now_ns) + process.noise.cost(
            process.key(f"{stream.number}:{site}:latency"), latency
        )
        task = Task(
            self._tasks, stream, work, key, call.number, call.correlation, arrive_ns,
            before=stream.last, after=[*(after or ()), *self._default_stream(stream)],
            function=function,
        )  # fmt: skip
        stream.last = task
        stream.queue.add(task)
        return task

    def _default_stream(self, stream: Stream) -> list[tuple[Task, Release]]:
        """Give what the legacy default stream makes a command wait for."""
        if stream.non_blocking:
            return []
        others = [
            one
            for one in self.process.streams
            if one.device == stream.device
            and one is not stream
            and not one.non_blocking
            and (stream.is_null or one.is_null)
        ]
        return [(one.last, Release.DEFAULT_STREAM) for one in others if one.last is not None]

    def _wait_for_room(self, call: Call, stream: Stream) -> None:
        """Wait until the hardware queue of a stream has room."""
        process, queue = self.process, stream.queue
        if not queue.is_full:
            return
        begin_ns = process.timeline.now_ns
        me = process.timeline.here
        while queue.is_full:
            queue.when_room.append(lambda: process.timeline.wake(me))
            process.timeline.wait()
        now_ns = process.timeline.now_ns
        call.until_ns += now_ns - begin_ns
        process.overhead(begin_ns, now_ns, OverheadKind.QUEUE_FULL, call)

    def _load(self, call: Call) -> None:
        """Load a kernel at its first launch."""
        process = self.process
        lasts_ns = process.noise.cost(process.key("lazy_load"), process.hardware.call("lazy_load"))
        process.overhead(call.begin_ns, call.begin_ns + lasts_ns, OverheadKind.LAZY_LOADING, call)
        call.begin_ns += lasts_ns
        call.until_ns += lasts_ns

    def _copy_pageable(
        self, call: Call, stream: Stream, work: CopyWork, function: Function | None
    ) -> Task | None:
        """Copy through a staging buffer.

        To the device the call stages; what is too large for one buffer first waits for the work
        before it. From the device the call waits for the end.
        """
        process = self.process
        if work.way is CopyWay.H2D:
            staged_ns = int(work.size / process.hardware.pageable_rate)
            if work.size > _STAGED_AT_ONCE:
                task = self._put(call, stream, work, function)
                if task is not None:
                    process.wait_for(call, [task])
                return task
            call.begin_ns += staged_ns
            call.until_ns += staged_ns
            return self._put(call, stream, work, function)
        task = self._put(call, stream, work, function)
        if task is not None:
            process.wait_for(call, [task])
        return task

    def _all_last(self, device: int) -> list[Task]:
        return [
            stream.last
            for stream in self.process.streams
            if stream.device == device and stream.last is not None
        ]

    def _note_sync(
        self,
        call: Call,
        kind: SyncKind,
        *,
        stream: Stream | None = None,
        event: Event | None = None,
        device: int | None = None,
    ) -> None:
        process = self.process
        if device is None:
            device = stream.device if stream is not None else next(iter(process.devices))
        inside = (call.until_ns - call.begin_ns) // 8
        process.log.syncs.append(
            SyncRow(
                process.rank, kind, call.begin_ns + inside, call.until_ns - inside,
                call.correlation, device, process.null_stream(device).context,
                None if stream is None else stream.number,
                None if event is None else event.number,
                None if event is None else event.record,
            )
        )  # fmt: skip

    def _note_memory(self, call: Call, address: int, *, allocates: bool) -> None:
        device, size, memory = self._allocated[address]
        process = self.process
        process.log.memory.append(
            MemoryRow(
                process.rank, device, process.null_stream(device).context, call.begin_ns, address,
                size, memory, allocates, call.correlation,
                "cudaMalloc" if memory is Memory.DEVICE else "cudaHostAlloc",
            )
        )  # fmt: skip

    def _tell(self, stream: Stream) -> None:
        self.process.log.streams.append(
            StreamInfo(
                stream.process, stream.device, stream.context, stream.number, stream.priority,
                stream.non_blocking, stream.is_null,
            )
        )  # fmt: skip


def _site(work: Work | GraphLaunch) -> str:
    """Say what a piece of work is, for its key."""
    if isinstance(work, CopyWork):
        return work.way.value
    if isinstance(work, MemsetWork):
        return "memset"
    if isinstance(work, GraphLaunch):
        return f"graph{work.executable.number}"
    return work.name
