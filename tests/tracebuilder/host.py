"""What the host did besides calls: overheads, memory events, graph nodes, diagnostics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from tests.tracebuilder.copies import MemoryKind, memory_kind
from tests.tracebuilder.identity import (
    DEFAULT_PROCESS,
    DEFAULT_THREAD,
    Row,
    Text,
    check_integer,
    check_span,
)

Severity = Literal["info", "warning", "error"]
MemoryOperation = Literal["alloc", "free"]

_SEVERITIES: Final[dict[Severity, int]] = {"info": 1, "warning": 2, "error": 3}
_MEMORY_OPERATIONS: Final[dict[MemoryOperation, int]] = {"alloc": 0, "free": 1}


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time that CUDA itself took (from 3.24.0 on).

    Attributes:
        overhead_type: 2 driver compiler, 6 module loading, 7 lazy function loading, 8 command
            buffer full.
    """

    start_ns: int
    end_ns: int
    overhead_type: int = 8
    name: Text = "Command Buffer Full"
    thread: int = field(default=DEFAULT_THREAD, kw_only=True)
    correlation: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_span(self.start_ns, self.end_ns)

    def columns(self) -> Row:
        """Give the row of CUPTI_ACTIVITY_KIND_OVERHEAD."""
        return {
            "start": self.start_ns,
            "end": self.end_ns,
            "eventClass": 103,
            "globalTid": self.thread,
            "correlationId": self.correlation,
            "nameId": self.name,
            "overheadType": self.overhead_type,
        }


@dataclass(frozen=True, slots=True)
class ProfilerOverhead:
    """Time that the profiler took."""

    start_ns: int
    end_ns: int
    name: Text = "CUPTI Buffer flush"
    thread: int = field(default=DEFAULT_THREAD, kw_only=True)
    overhead_type: int = field(default=3, kw_only=True)

    def __post_init__(self) -> None:
        check_span(self.start_ns, self.end_ns)

    def columns(self) -> Row:
        """Give the row, in the columns of all versions."""
        return {
            "start": self.start_ns,
            "end": self.end_ns,
            "globalTid": self.thread,
            "nameId": self.name,
            "returnValue": 0,
            "overheadType": self.overhead_type,
        }


@dataclass(frozen=True, slots=True)
class HostCallback:
    """A host function as the host ran it (from 3.28.1 on)."""

    start_ns: int
    end_ns: int
    name: Text = "host function"
    thread: int = field(default=DEFAULT_THREAD, kw_only=True)
    correlation: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_span(self.start_ns, self.end_ns)

    def columns(self) -> Row:
        """Give the row of CUDA_HOST_CALLBACK."""
        return {
            "start": self.start_ns,
            "end": self.end_ns,
            "eventClass": 0,  # no file shows which it is
            "globalTid": self.thread,
            "correlationId": self.correlation,
            "nameId": self.name,
        }


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """An allocation or release of memory, with --cuda-memory-usage."""

    start_ns: int
    operation: MemoryOperation = "alloc"
    bytes: int = 1 << 20
    address: int = 0x7F0000000000
    kind: MemoryKind | int = field(default="device", kw_only=True)
    device: int = field(default=0, kw_only=True)
    context: int = field(default=1, kw_only=True)
    process: int = field(default=DEFAULT_PROCESS, kw_only=True)
    correlation: int | None = field(default=None, kw_only=True)
    stream: int | None = field(default=None, kw_only=True)
    pool_address: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_integer(self.start_ns)
        if self.operation not in _MEMORY_OPERATIONS:
            raise ValueError(f"no memory operation {self.operation!r}")

    def columns(self) -> Row:
        """Give the row of CUDA_GPU_MEMORY_USAGE_EVENTS."""
        return {
            "start": self.start_ns,
            "globalPid": self.process,
            "deviceId": self.device,
            "contextId": self.context,
            "address": self.address,
            "pc": 0,
            "bytes": self.bytes,
            "memKind": memory_kind(self.kind),
            "memoryOperationType": _MEMORY_OPERATIONS[self.operation],
            "correlationId": self.correlation,
            "streamId": self.stream,
            "localMemoryPoolAddress": self.pool_address,
        }


@dataclass(frozen=True, slots=True)
class GraphNode:
    """The creation of a node of a graph; `original` is the node that it was cloned from."""

    node: int
    original: int | None = None
    start_ns: int = field(default=0, kw_only=True)
    thread: int = field(default=DEFAULT_THREAD, kw_only=True)

    def columns(self) -> Row:
        """Give the row, of CUDA_GRAPH_EVENTS before 3.11.1 and CUDA_GRAPH_NODE_EVENTS then."""
        return {
            "start": self.start_ns,
            "end": self.start_ns,
            "eventClass": 77,
            "globalTid": self.thread,
            "nameId": "Graph Node Creation",
            "graphNodeId": self.node,
            "originalGraphNodeId": self.original,
        }


@dataclass(frozen=True, slots=True)
class GraphCreation:
    """The creation of a graph, or of an executable one if it has a `graph_exec` (from 3.11.1)."""

    graph: int
    graph_exec: int | None = None
    original: int | None = None
    start_ns: int = field(default=0, kw_only=True)
    thread: int = field(default=DEFAULT_THREAD, kw_only=True)

    def columns(self) -> Row:
        """Give the row of CUDA_GRAPH_EVENTS."""
        return {
            "start": self.start_ns,
            "end": self.start_ns,
            "eventClass": 95 if self.graph_exec is None else 94,
            "globalTid": self.thread,
            "nameId": "Graph Creation" if self.graph_exec is None else "GraphExec Creation",
            "graphId": self.graph,
            "originalGraphId": self.original,
            "graphExecId": self.graph_exec,
        }


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What the profiler says about the quality of its data (from 3.11.1 on)."""

    text: Text
    severity: Severity = "warning"
    timestamp_ns: int = 0
    source: int = field(default=1, kw_only=True)
    process: int = field(default=DEFAULT_PROCESS, kw_only=True)

    def __post_init__(self) -> None:
        if self.severity not in _SEVERITIES:
            raise ValueError(f"no severity {self.severity!r}")

    def columns(self) -> Row:
        """Give the row of DIAGNOSTIC_EVENT."""
        return {
            "timestamp": self.timestamp_ns,
            "timestampType": 1,
            "source": self.source,
            "severity": _SEVERITIES[self.severity],
            "text": self.text,
            "globalPid": self.process,
        }
