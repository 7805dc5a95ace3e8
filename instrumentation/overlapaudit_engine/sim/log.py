"""What happened in a simulated run, as a profiler could have seen it: rows in true time.

True time is one clock for all hosts and devices, in whole ns from the start of the simulation. A
recorder turns it into what each clock would have shown. The truth is kept elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from overlapaudit_engine.work import CollectiveWork, CopyWay, KernelWork, Memory


class SyncKind(str, Enum):
    """What a call of the host waited for, or asked about, or made a stream wait for."""

    EVENT_SYNC = "event_sync"
    EVENT_QUERY = "event_query"
    STREAM_WAIT = "stream_wait"
    STREAM_SYNC = "stream_sync"
    DEVICE_SYNC = "device_sync"


class RangeKind(str, Enum):
    """How a range was opened."""

    PUSH_POP = "push_pop"
    START_END = "start_end"
    MARK = "mark"


class OverheadKind(str, Enum):
    """What took a thread's time without being its work."""

    BUFFER_FLUSH = "buffer_flush"  # the profiler writes its buffers away
    MODULE_LOADING = "module_loading"  # by the runtime
    LAZY_LOADING = "lazy_loading"  # of a function, at its first launch
    QUEUE_FULL = "queue_full"  # a launch waited for room


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream: `number` is what a profiler calls it; the legacy default stream has flag `null`."""

    process: int
    device: int
    context: int
    number: int
    priority: int
    non_blocking: bool
    is_null: bool


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process, its threads (number: name) and the devices that it sees, in its own order.

    `host` numbers the machine it runs on, `pid` is its id there; `devices` are numbers of the run.
    """

    rank: int
    pid: int
    name: str
    host: int
    threads: dict[int, str]
    devices: tuple[int, ...]


@dataclass(slots=True)
class ApiRow:
    """A call of the CUDA runtime (or driver), by its plain name without version."""

    process: int
    thread: int
    name: str
    start_ns: int
    end_ns: int
    correlation: int
    result: int = 0
    driver: bool = False


@dataclass(slots=True)
class KernelRow:
    """A kernel that ran; `grid_id` counts the launches of a process."""

    process: int
    device: int
    context: int
    stream: int
    correlation: int
    start_ns: int
    end_ns: int
    work: KernelWork | CollectiveWork
    grid_id: int
    graph_node: int | None = None
    graph: int | None = None


@dataclass(slots=True)
class CopyRow:
    """A copy that ran."""

    process: int
    device: int
    context: int
    stream: int
    correlation: int
    start_ns: int
    end_ns: int
    way: CopyWay
    size: int
    source: Memory
    destination: Memory
    peer: int | None = None
    graph_node: int | None = None


@dataclass(slots=True)
class MemsetRow:
    """A memset that ran."""

    process: int
    device: int
    context: int
    stream: int
    correlation: int
    start_ns: int
    end_ns: int
    size: int
    value: int
    graph_node: int | None = None


@dataclass(slots=True)
class SyncRow:
    """A synchronisation; `event` is the event object, `record` the record that counts.

    Each is None where the call is not about one. `start_ns` and `end_ns` lie within the call.
    """

    process: int
    kind: SyncKind
    start_ns: int
    end_ns: int
    correlation: int
    device: int
    context: int
    stream: int | None = None
    event: int | None = None
    record: int | None = None


@dataclass(slots=True)
class EventRow:
    """A record of an event in a stream; `record` counts those of the process from 1 on."""

    process: int
    device: int
    context: int
    stream: int
    correlation: int
    event: int
    record: int
    done_ns: int | None = None


@dataclass(slots=True)
class GraphRow:
    """A launch of a graph, as a whole: first node's start to last node's end."""

    process: int
    device: int
    context: int
    stream: int
    correlation: int
    start_ns: int
    end_ns: int
    graph: int
    executable: int


@dataclass(slots=True)
class GraphNodeCreated:
    """A node came to be at a moment of a thread; `original` is the node that it was cloned from."""

    process: int
    thread: int
    at_ns: int
    node: int
    original: int | None


@dataclass(slots=True)
class GraphCreated:
    """A graph (or, with `executable`, an executable one) came to be."""

    process: int
    thread: int
    at_ns: int
    graph: int
    original: int | None
    executable: int | None


@dataclass(slots=True)
class MemoryRow:
    """Memory was given out (`allocates`) or taken back."""

    process: int
    device: int
    context: int
    at_ns: int
    address: int
    size: int
    memory: Memory
    allocates: bool
    correlation: int
    name: str


@dataclass(slots=True)
class RangeRow:
    """An NVTX range or mark; `end_ns` is None while it is open, `end_thread` is where it ended."""

    process: int
    thread: int
    kind: RangeKind
    start_ns: int
    text: str
    domain: str | None = None
    category: str | None = None
    registered: bool = False
    payload: int | None = None
    end_ns: int | None = None
    end_thread: int | None = None
    range_id: int | None = None


@dataclass(slots=True)
class OverheadRow:
    """Time of a thread that was not its work; `correlation` where a call had to wait for it."""

    process: int
    thread: int
    start_ns: int
    end_ns: int
    kind: OverheadKind
    correlation: int | None = None


@dataclass(slots=True)
class UsageRow:
    """How busy a device was from `start_ns` to the next row's: shares of each resource, 0 to 1."""

    device: int
    start_ns: int
    sms_active: float
    dram_read: float
    dram_write: float
    pcie_rx: float
    pcie_tx: float
    link_rx: float
    link_tx: float
    nic: float


@dataclass(slots=True)
class RunLog:
    """All rows of a run, each list in the order in which things were known."""

    processes: list[ProcessInfo] = field(default_factory=list)
    streams: list[StreamInfo] = field(default_factory=list)
    api: list[ApiRow] = field(default_factory=list)
    kernels: list[KernelRow] = field(default_factory=list)
    copies: list[CopyRow] = field(default_factory=list)
    memsets: list[MemsetRow] = field(default_factory=list)
    syncs: list[SyncRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    graphs: list[GraphRow] = field(default_factory=list)
    graph_nodes: list[GraphNodeCreated] = field(default_factory=list)
    graphs_created: list[GraphCreated] = field(default_factory=list)
    memory: list[MemoryRow] = field(default_factory=list)
    ranges: list[RangeRow] = field(default_factory=list)
    overheads: list[OverheadRow] = field(default_factory=list)
    usage: list[UsageRow] = field(default_factory=list)
    end_ns: int = 0
