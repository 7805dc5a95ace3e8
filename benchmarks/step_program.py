"""What the host does in one step of the generated serving run, call by call.

Every step is the same program of 472 API calls, 396 of them kernel launches, wrapped in 114 nested
NVTX ranges. Only the times, the sizes and the variants of the kernels differ between steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

LAYERS = 32
COMPUTE, COMM, H2D, D2H = range(4)
"""Streams of a device."""
MAIN, KV_THREAD = range(2)
"""Threads of a process."""
DEFAULT_DOMAIN, OUR_DOMAIN, NCCL_DOMAIN = range(3)
"""NVTX domains."""


class Kind(IntEnum):
    """What an API call does; the kinds that put work on the GPU come first."""

    KERNEL = 0
    COLLECTIVE = 1
    COPY = 2
    MEMSET = 3
    RECORD = 4
    STREAM_WAIT = 5
    EVENT_SYNC = 6
    STREAM_SYNC = 7
    EVENT_QUERY = 8
    OTHER = 9


GPU_KINDS = (Kind.KERNEL, Kind.COLLECTIVE, Kind.COPY, Kind.MEMSET)
SYNC_KINDS = (Kind.STREAM_WAIT, Kind.EVENT_SYNC, Kind.STREAM_SYNC, Kind.EVENT_QUERY)


@dataclass(frozen=True, slots=True)
class Call:
    """One API call and the work it puts on a stream; `gpu_ns` and `size` are typical values.

    `woken` says that another thread's call just before starts this thread.
    """

    kind: Kind
    api: str
    stream: int = COMPUTE
    thread: int = MAIN
    event: int = -1
    work: str = ""
    gpu_ns: int = 0
    size: int = 0
    pageable: bool = False
    woken: bool = False


@dataclass(frozen=True, slots=True)
class Nested:
    """One push/pop range around the calls `first` to `last`; `payload` -1 means none."""

    first: int
    last: int
    depth: int
    thread: int
    domain: int
    label: str
    payload: int


@dataclass(slots=True)
class StepProgram:
    """The calls and ranges of a step while they are put together."""

    calls: list[Call] = field(default_factory=list)
    ranges: list[Nested] = field(default_factory=list)
    events: int = 0
    _depth: dict[int, int] = field(default_factory=lambda: {MAIN: 0, KV_THREAD: 0})

    @contextmanager
    def range(
        self, label: str, domain: int = DEFAULT_DOMAIN, payload: int = -1, thread: int = MAIN
    ) -> Iterator[None]:
        """Wrap the calls made inside in an NVTX range; they must all be of this thread."""
        first, depth = len(self.calls), self._depth[thread]
        self._depth[thread] += 1
        yield
        self._depth[thread] -= 1
        last = len(self.calls) - 1
        self.ranges.append(Nested(first, last, depth, thread, domain, label, payload))

    def kernel(self, work: str, gpu_ns: int) -> None:
        """Launch a kernel on the compute stream, Triton's and cuBLAS's through other calls."""
        api = {"triton": "cuLaunchKernelEx", "gemm": "cudaLaunchKernelExC_v11060"}
        self.calls.append(
            Call(Kind.KERNEL, api.get(work, "cudaLaunchKernel_v7000"), work=work, gpu_ns=gpu_ns)
        )

    def collective(self) -> None:
        """Launch a collective on the communication stream."""
        api = "cudaLaunchKernelExC_v11060"
        self.calls.append(Call(Kind.COLLECTIVE, api, COMM, work="comm", gpu_ns=11_000))

    def copy(self, stream: int, size: int, thread: int = MAIN, pageable: bool = False) -> None:
        """Copy `size` bytes in the direction of the stream."""
        api = "cudaMemcpyAsync_v3020"
        self.calls.append(
            Call(Kind.COPY, api, stream, thread, gpu_ns=1300, size=size, pageable=pageable)
        )

    def memset(self) -> None:
        """Clear a small buffer on the compute stream."""
        self.calls.append(Call(Kind.MEMSET, "cudaMemsetAsync_v3020", gpu_ns=1500, size=16_384))

    def record(self, stream: int, thread: int = MAIN) -> int:
        """Record a new event on a stream and give its number."""
        event, self.events = self.events, self.events + 1
        self.calls.append(Call(Kind.RECORD, "cudaEventRecord_v3020", stream, thread, event))
        return event

    def wait(self, stream: int, event: int) -> None:
        """Make a stream wait for an event."""
        self.calls.append(Call(Kind.STREAM_WAIT, "cudaStreamWaitEvent_v3020", stream, event=event))

    def order(self, producer: int, consumer: int) -> None:
        """Make `consumer` wait for all that `producer` has been given so far."""
        self.wait(consumer, self.record(producer))

    def host(self, kind: Kind, api: str, stream: int = COMPUTE, event: int = -1) -> None:
        """Make a call that puts nothing on the GPU."""
        self.calls.append(Call(kind, api, stream, event=event))


def build_step() -> StepProgram:
    """Put the calls of one step together."""
    step = StepProgram()
    with step.range("step"):
        _preprocess(step)
        loads = _load_cache(step)
        with step.range("gpu_model_runner: forward"):
            step.kernel("elementwise", 3000)
            for layer in range(LAYERS):
                if layer in (8, 24):
                    step.wait(COMPUTE, loads[layer // 16])
                _layer(step, layer)
            step.kernel("norm", 4000)
        stored = _store_cache(step)
        _sample(step)
        with step.range("gpu_model_runner: bookkeep"):
            step.host(Kind.EVENT_QUERY, "cudaEventQuery_v3020", event=stored)
    return step


def _load_cache(step: StepProgram) -> list[int]:
    """Load blocks of the KV cache from host memory, on a thread of its own."""
    with step.range("cache.lookup", OUR_DOMAIN, thread=KV_THREAD):
        api = "cudaStreamIsCapturing_v10000"
        step.calls.append(Call(Kind.OTHER, api, thread=KV_THREAD, woken=True))
    events = []
    for _ in range(2):
        with step.range("cache.l2_l1", OUR_DOMAIN, 4, KV_THREAD):
            for _ in range(4):
                step.copy(H2D, 2 << 20, KV_THREAD)
            events.append(step.record(H2D, KV_THREAD))
    return events


def _preprocess(step: StepProgram) -> None:
    """Send the batch's metadata and build its positions and slots."""
    with step.range("gpu_model_runner: preprocess"):
        step.host(Kind.STREAM_SYNC, "cudaStreamSynchronize_v3020", D2H)
        for index in range(6):
            step.copy(H2D, 8192 << (index % 3), pageable=index == 5)
        step.order(H2D, COMPUTE)
        step.record(H2D)
        for _ in range(2):
            step.memset()
        for _ in range(4):
            step.kernel("triton", 2500)


def _layer(step: StepProgram, layer: int) -> None:
    """Launch a transformer layer; in every fourth the collective is waited for."""
    with step.range(f"{{'Module': 'model.layers.{layer}'}}"):
        with step.range("layer.attn", OUR_DOMAIN, layer):
            for work, gpu_ns in (
                ("norm", 3500), ("gemm", 8000), ("rope", 2500), ("kv_write", 2500),
                ("attention", 12_000), ("gemm", 6500),
            ):  # fmt: skip
                step.kernel(work, gpu_ns)
            _tensor_parallel(step, layer)
        with step.range("layer.shared", OUR_DOMAIN, layer):
            for work, gpu_ns in (("norm", 3500), ("gemm", 13_000), ("act", 3000), ("gemm", 9000)):
                step.kernel(work, gpu_ns)
            step.collective()


def _tensor_parallel(step: StepProgram, layer: int) -> None:
    """Launch the collective behind attention."""
    if layer % 4:
        step.collective()
        return
    with step.range("ncclAllReduce", NCCL_DOMAIN, 8192):
        step.order(COMPUTE, COMM)
        step.collective()
        step.order(COMM, COMPUTE)


def _store_cache(step: StepProgram) -> int:
    """Write finished blocks of the KV cache back to host memory; give the event behind it."""
    with step.range("cache.store", OUR_DOMAIN, 4):
        step.order(COMPUTE, D2H)
        for _ in range(4):
            step.copy(D2H, 1 << 20)
        return step.record(D2H)


def _sample(step: StepProgram) -> None:
    """Sample tokens and wait for them on the host."""
    with step.range("gpu_model_runner: postprocess"):
        step.kernel("gemm", 20_000)
        step.kernel("elementwise", 3000)
        for _ in range(2):
            step.memset()
    with step.range("gpu_model_runner: sample"):
        for _ in range(2):
            step.host(Kind.OTHER, "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000")
        step.host(Kind.OTHER, "cudaStreamIsCapturing_v10000")
        for _ in range(4):
            step.kernel("sampling", 5000)
        step.order(COMPUTE, D2H)
        for _ in range(2):
            step.copy(D2H, 4096)
        step.host(Kind.EVENT_SYNC, "cudaEventSynchronize_v3020", D2H, step.record(D2H))
