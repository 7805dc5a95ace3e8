"""The kinds that rows of a trace come in; every comparison of kinds goes through these."""

from __future__ import annotations

from enum import Enum


class Kind(str, Enum):
    """A closed set of words; `str(kind)` is the word itself."""

    def __str__(self) -> str:
        return str(self.value)


class OpKind(Kind):
    """What a GPU operation is."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    GRAPH = "graph"
    DECOMPRESS = "decompress"


class Lane(Kind):
    """Where on a device an operation counts."""

    COMPUTE = "compute"
    COMM = "comm"
    COPY = "copy"
    MEMSET = "memset"
    GRAPH = "graph"


class Direction(Kind):
    """Which way a copy goes."""

    H2D = "h2d"
    D2H = "d2h"
    D2D = "d2d"
    P2P = "p2p"
    H2H = "h2h"


class MemoryKind(Kind):
    """What memory a copy reads or writes."""

    PAGEABLE = "pageable"
    PINNED = "pinned"
    DEVICE = "device"
    ARRAY = "array"
    MANAGED = "managed"
    DEVICE_STATIC = "device_static"
    MANAGED_STATIC = "managed_static"
    UNKNOWN = "unknown"


class ApiKind(Kind):
    """What a CUDA runtime or driver call does, as far as overlap is concerned."""

    LAUNCH = "launch"
    COPY = "copy"
    MEMSET = "memset"
    GRAPH_LAUNCH = "graph_launch"
    EVENT_RECORD = "event_record"
    STREAM_WAIT = "stream_wait"
    EVENT_SYNC = "event_sync"
    STREAM_SYNC = "stream_sync"
    DEVICE_SYNC = "device_sync"
    QUERY = "query"
    CAPTURE_BEGIN = "capture_begin"
    CAPTURE_END = "capture_end"
    ALLOCATE = "allocate"
    FREE = "free"
    MODULE_LOAD = "module_load"
    GRAPH_BUILD = "graph_build"
    OTHER = "other"


# Calls that put work on a GPU.
LAUNCHING_KINDS = (
    ApiKind.LAUNCH.value,
    ApiKind.COPY.value,
    ApiKind.MEMSET.value,
    ApiKind.GRAPH_LAUNCH.value,
)


class WaitKind(Kind):
    """What a synchronisation row waits for. A query waits for nothing."""

    STREAM_WAIT = "stream_wait"
    EVENT_SYNC = "event_sync"
    STREAM_SYNC = "stream_sync"
    DEVICE_SYNC = "device_sync"
    QUERY = "query"
    UNKNOWN = "unknown"


class RangeKind(Kind):
    """How an NVTX range was opened and closed."""

    PUSH_POP = "push_pop"
    START_END = "start_end"
    MARK = "mark"


class Severity(Kind):
    """How much a finding matters; the order of the members is the order of weight."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Confidence(Kind):
    """How sure a finding is."""

    PROVEN = "proven"
    INFERRED = "inferred"
    POSSIBLE = "possible"
