"""The machine and what ran on it: GPUs, contexts, streams, processes, threads, metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from tests.tracebuilder.identity import (
    DEFAULT_PROCESS,
    GLOBAL_VID,
    Row,
    Text,
    hw_of,
    main_thread,
    pid_of,
    vm_of,
)
from tests.tracebuilder.versions import Schema

StreamFlag = Literal["unknown", "blocking", "non_blocking", "null"]

_STREAM_FLAGS: Final[dict[StreamFlag, int]] = {
    "unknown": 0,
    "blocking": 1,
    "non_blocking": 2,
    "null": 3,
}


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the machine; by default an H100 SXM. `cu_device` is `id` if None."""

    id: int = 0
    name: Text = "NVIDIA H100 80GB HBM3"
    sm_count: int = 132
    memory_bandwidth: int = 3_352_000_000_000
    total_memory: int = 85_029_158_912
    l2_cache: int = 52_428_800
    clock_rate_hz: int = 1_980_000_000
    async_engines: int = 3
    compute_capability: tuple[int, int] = (9, 0)
    chip: str = "GH100"
    cu_device: int | None = None
    max_shared_per_sm: int = 233_472

    def columns(self) -> Row:
        """Give the row of TARGET_INFO_GPU."""
        major, minor = self.compute_capability
        limits: Row = {
            "constantMemory": 65536,
            "maxIPC": 4,
            "maxRegistersPerBlock": 65536,
            "maxShmemPerBlock": 49152,
            "maxShmemPerBlockOptin": self.max_shared_per_sm - 1024,
            "maxShmemPerSm": self.max_shared_per_sm,
            "maxRegistersPerSm": 65536,
            "threadsPerWarp": 32,
            "asyncEngines": self.async_engines,
            "maxWarpsPerSm": 64,
            "maxBlocksPerSm": 32,
            "maxThreadsPerBlock": 1024,
            "maxBlockDimX": 1024,
            "maxBlockDimY": 1024,
            "maxBlockDimZ": 64,
            "maxGridDimX": 2147483647,
            "maxGridDimY": 65535,
            "maxGridDimZ": 65535,
        }
        return {
            "vmId": GLOBAL_VID,
            "id": self.id,
            "name": self.name,
            "busLocation": f"0000:{self.id + 1:02x}:00.0",
            "isDiscrete": 1,
            "l2CacheSize": self.l2_cache,
            "totalMemory": self.total_memory,
            "memoryBandwidth": self.memory_bandwidth,
            "clockRate": self.clock_rate_hz,
            "smCount": self.sm_count,
            "pwGpuId": self.id,
            "uuid": f"00000000-0000-0000-0000-{self.id:012d}",
            "luid": 0,
            "chipName": self.chip,
            "cuDevice": self.id if self.cu_device is None else self.cu_device,
            "ctxswDevPath": "",
            "ctrlDevPath": "",
            "revision": 161,
            "nodeMask": 0,
            **limits,
            "computeMajor": major,
            "computeMinor": minor,
            "smMajor": major,
            "smMinor": minor,
        }


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """Which GPU a device ordinal of a process is (from 3.17.1 on)."""

    gpu: int = 0
    device: int = 0
    process: int = DEFAULT_PROCESS
    sm_count: int | None = None

    def columns(self) -> Row:
        """Give the row of TARGET_INFO_CUDA_DEVICE."""
        return {
            "gpuId": self.gpu,
            "cudaId": self.device,
            "pid": pid_of(self.process),
            "numMultiprocessors": self.sm_count,
        }


@dataclass(frozen=True, slots=True)
class Context:
    """A CUDA context; its null stream is 7 for context 1, 15 for 2 and so on if None."""

    context: int = 1
    device: int = 0
    process: int = DEFAULT_PROCESS
    null_stream: int | None = None
    parent: int | None = None
    is_green: bool = False

    def columns(self, schema: Schema) -> Row:
        """Give the row of TARGET_INFO_CUDA_CONTEXT_INFO."""
        stated = self.is_green or schema.at_least("3.16.1")  # NULL for no before
        parent = 0 if self.parent is None and stated else self.parent
        return {
            "nullStreamId": self._null_stream(),
            **_owner(self.process),
            "deviceId": self.device,
            "contextId": self.context,
            "parentContextId": parent,
            "isGreenContext": int(self.is_green) if stated else None,
            "numMultiprocessors": 0,
        }

    def null_stream_columns(self) -> Row:
        """Give the row of TARGET_INFO_CUDA_NULL_STREAM, before 3.7.2."""
        return {
            "streamId": self._null_stream(),
            **_owner(self.process),
            "deviceId": self.device,
            "contextId": self.context,
        }

    def _null_stream(self) -> int:
        return 8 * self.context - 1 if self.null_stream is None else self.null_stream


@dataclass(frozen=True, slots=True)
class Stream:
    """A CUDA stream; `name` is the one given through NVTX, which has a table of its own."""

    stream: int
    flag: StreamFlag | int = "blocking"
    priority: int = 0
    context: int = field(default=1, kw_only=True)
    device: int = field(default=0, kw_only=True)
    process: int = field(default=DEFAULT_PROCESS, kw_only=True)
    name: Text | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.flag, int) and self.flag not in _STREAM_FLAGS:
            raise ValueError(f"no stream flag {self.flag!r}")

    def columns(self) -> Row:
        """Give the row of TARGET_INFO_CUDA_STREAM; a negative priority wraps, as in the files."""
        return {
            "streamId": self.stream,
            **_owner(self.process),
            "contextId": self.context,
            "priority": self.priority % (1 << 32),
            "flag": self.flag if isinstance(self.flag, int) else _STREAM_FLAGS[self.flag],
        }

    def name_columns(self) -> Row:
        """Give the row of TARGET_INFO_NVTX_CUDA_STREAM."""
        return {
            "name": self.name,
            "streamId": self.stream,
            **_owner(self.process),
            "deviceId": self.device,
            "contextId": self.context,
        }


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the machine, with GPU work or without."""

    name: Text = "app"
    process: int = DEFAULT_PROCESS

    def columns(self) -> Row:
        """Give the row of PROCESSES."""
        return {"globalPid": self.process, "pid": pid_of(self.process), "name": self.name}


@dataclass(frozen=True, slots=True)
class Thread:
    """The name of a thread."""

    name: Text
    thread: int
    priority: int = 20

    def columns(self) -> Row:
        """Give the row of ThreadNames."""
        return {"nameId": self.name, "priority": self.priority, "globalTid": self.thread}


@dataclass(frozen=True, slots=True)
class MpiRank:
    """The MPI rank of a process (from 3.7.2 on)."""

    rank: int
    process: int = DEFAULT_PROCESS

    def columns(self) -> Row:
        """Give the row of MPI_RANKS."""
        return {"globalTid": main_thread(self.process), "rank": self.rank}


@dataclass(frozen=True, slots=True)
class Metric:
    """A sample of a GPU metric (from 3.7.2 on)."""

    timestamp_ns: int
    name: str
    value: int
    gpu: int = 0

    def columns(self, metric: int) -> Row:
        """Give the row of GPU_METRICS."""
        return {
            "rawTimestamp": self.timestamp_ns,
            "timestamp": self.timestamp_ns,
            "typeId": _metric_type(self.gpu),
            "metricId": metric,
            "value": self.value,
        }

    def name_columns(self, metric: int) -> Row:
        """Give the row of TARGET_INFO_GPU_METRICS."""
        return {
            "typeId": _metric_type(self.gpu),
            "sourceId": _metric_type(0),
            "typeName": "",
            "metricId": metric,
            "metricName": self.name,
        }


def _metric_type(gpu: int) -> int:
    return GLOBAL_VID | 1 << 32 | gpu


def _owner(process: int) -> Row:
    return {"hwId": hw_of(process), "vmId": vm_of(process), "processId": pid_of(process)}
