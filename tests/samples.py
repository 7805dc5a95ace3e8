"""The traces in sample_traces/, until the reference engine makes them.

Two ranks of a tensor-parallel decoder serve a few decode steps: attention and expert GEMMs on one
stream, an all-reduce behind each on another, the cache blocks of the next layer on a third. The
times are arithmetic, so that the same file comes out everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.tracebuilder import (
    ApiCall,
    Copy,
    EventRecord,
    Gpu,
    Kernel,
    Memset,
    Process,
    Range,
    Stream,
    Sync,
    Thread,
    global_pid,
    main_thread,
    nvtx_domain,
)

STEPS, LAYERS = 6, 4
COMPUTE, COMM, KV = 7, 13, 14
DOMAIN = 1
NAMES = {
    "norm": "void rms_norm_kernel<__nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16 const*, float, int)",
    "qkv": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
    "attention": "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>"
    "(Flash_fwd_params)",
    "experts": "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<GroupedGemm>>"
    "(GroupedGemm::Params)",
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "sample": "void topk_topp_sampling_kernel<float, int>(float*, int*, int)",
}


@dataclass
class Rank:
    """One rank: its clocks (host, and each stream), and what they have done so far."""

    number: int
    host_ns: int = 1_000_000
    free_ns: dict[int, int] = field(default_factory=lambda: dict.fromkeys((COMPUTE, COMM, KV), 0))
    kernels: list[Kernel] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    memsets: list[Memset] = field(default_factory=list)
    records: list[EventRecord] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    draws: int = 0

    @property
    def process(self) -> int:
        """The globalPid."""
        return global_pid(4000 + self.number)

    @property
    def where(self) -> dict[str, int]:
        """The process, device and context of all rows."""
        return {"process": self.process, "device": self.number, "context": 1}

    def jitter(self, spread: int) -> int:
        """Give a number from 0 to `spread`, another one each time."""
        self.draws += 1
        return (self.draws * 7919 + self.number * 104_729) % 1009 * spread // 1008

    def call(self, name: str, lasts_ns: int = 2_600) -> ApiCall:
        """Let the host make a call."""
        start_ns = self.host_ns
        self.host_ns += lasts_ns + self.jitter(500)
        end_ns = self.host_ns
        self.host_ns += 700 + self.jitter(300)
        return ApiCall(name, start_ns, end_ns)

    def span(self, stream: int, launch: ApiCall, lasts_ns: int) -> tuple[int, int]:
        """Place work on a stream, behind its launch and what is queued there."""
        start_ns = max(self.free_ns[stream] + 900, launch.start_ns + 4_800)
        end_ns = start_ns + lasts_ns + self.jitter(lasts_ns // 20)
        self.free_ns[stream] = end_ns
        return start_ns, end_ns

    def kernel(self, what: str, lasts_ns: int, stream: int = COMPUTE) -> None:
        """Launch a kernel."""
        launch = self.call("cudaLaunchKernel_v7000")
        start_ns, end_ns = self.span(stream, launch, lasts_ns)
        self.kernels.append(
            Kernel(start_ns, end_ns, NAMES[what], short_name=what, stream=stream, launch=launch,
                   grid=(132, 1, 1), block=(384, 1, 1), **self.where)
        )  # fmt: skip

    def copy(self, direction: str, size: int, stream: int) -> None:
        """Launch a copy at 50 GB/s."""
        launch = self.call("cudaMemcpyAsync_v3020")
        start_ns, end_ns = self.span(stream, launch, 1_500 + size // 50)
        self.copies.append(
            Copy(start_ns, end_ns, direction, size, stream=stream, launch=launch, **self.where)  # type: ignore[arg-type]
        )

    def order(self, before: int, after: int) -> None:
        """Let one stream wait for what another has been given."""
        event = 1 + len(self.records) % 8
        sync_id = len(self.records) + 1
        record = self.call("cudaEventRecord_v3020", 900)
        self.records.append(
            EventRecord(record.start_ns, record.end_ns, event, event_sync_id=sync_id,
                        stream=before, launch=record, **self.where)
        )  # fmt: skip
        wait = self.call("cudaStreamWaitEvent_v3020", 800)
        self.syncs.append(
            Sync(wait.start_ns, wait.end_ns, "stream_wait", event_id=event, event_sync_id=sync_id,
                 stream=after, launch=wait, **self.where)
        )  # fmt: skip
        self.free_ns[after] = max(self.free_ns[after], self.free_ns[before])

    def wait(self, stream: int) -> None:
        """Let the host wait for a stream."""
        start_ns = self.host_ns
        self.host_ns = max(start_ns + 1_500, self.free_ns[stream] + 6_000)
        call = ApiCall("cudaStreamSynchronize_v3020", start_ns, self.host_ns)
        self.syncs.append(
            Sync(start_ns, self.host_ns, "stream_sync", stream=stream, launch=call, **self.where)
        )
        self.host_ns += 2_000

    def range(self, text: str, start_ns: int, payload: int) -> None:
        """Close a range that opened at `start_ns`."""
        self.ranges.append(
            Range(text, start_ns, self.host_ns, thread=main_thread(self.process), domain=DOMAIN,
                  payload=payload)
        )  # fmt: skip


def decode_steps() -> dict[str, Any]:
    """Give the content of decode_steps.sqlite."""
    ranks = [Rank(0), Rank(1)]
    for step in range(STEPS):
        for rank in ranks:
            _step(rank, step)
        _meet(ranks)
    return {
        "schema": "2025.5",
        "kernels": [kernel for rank in ranks for kernel in rank.kernels],
        "copies": [copy for rank in ranks for copy in rank.copies],
        "memsets": [memset for rank in ranks for memset in rank.memsets],
        "event_records": [record for rank in ranks for record in rank.records],
        "syncs": [sync for rank in ranks for sync in rank.syncs],
        "ranges": [
            row
            for rank in ranks
            for row in (
                nvtx_domain("overlapaudit", DOMAIN, process=rank.process),
                *sorted(rank.ranges, key=lambda row: (row.start_ns, -(row.end_ns or 0))),
            )
        ],
        "gpus": [Gpu(0), Gpu(1)],
        "streams": [stream for rank in ranks for stream in _streams(rank)],
        "processes": [Process("decoder", rank.process) for rank in ranks],
        "threads": [Thread("decoder", main_thread(rank.process)) for rank in ranks],
    }


def _streams(rank: Rank) -> Iterator[Stream]:
    for stream, priority in ((COMM, -5), (KV, 0)):
        yield Stream(stream, "non_blocking", priority, process=rank.process, device=rank.number)


def _step(rank: Rank, step: int) -> None:
    began_ns = rank.host_ns
    rank.host_ns += 38_000 + rank.jitter(4_000)  # the scheduler
    rank.range("iteration.schedule", began_ns, step)
    start_ns = rank.host_ns
    rank.copy("h2d", 16_384, COMPUTE)
    rank.range("iteration.metadata_h2d", start_ns, step)
    start_ns = rank.host_ns
    for layer in range(LAYERS):
        _layer(rank, layer)
    rank.range("iteration.model", start_ns, step)
    start_ns = rank.host_ns
    launch = rank.call("cudaMemsetAsync_v3020")
    begin, end = rank.span(COMPUTE, launch, 1_200)
    rank.memsets.append(Memset(begin, end, 4_096, stream=COMPUTE, launch=launch, **rank.where))
    rank.kernel("sample", 14_000)
    rank.range("iteration.sample", start_ns, step)
    start_ns = rank.host_ns
    rank.copy("d2h", 512, COMPUTE)
    rank.wait(COMPUTE)
    rank.range("iteration.result_d2h", start_ns, step)
    rank.range("iteration.step|tokens=64,requests=64", began_ns, step)


def _layer(rank: Rank, layer: int) -> None:
    start_ns = rank.host_ns
    if layer + 1 < LAYERS:
        rank.copy("h2d", 1_572_864, KV)  # the cache blocks of the next layer
    rank.kernel("norm", 3_000)
    rank.kernel("qkv", 21_000)
    rank.kernel("attention", 33_000)
    _all_reduce(rank)
    rank.kernel("norm", 3_000)
    rank.kernel("experts", 46_000)
    _all_reduce(rank)
    if layer + 1 < LAYERS:
        rank.order(KV, COMPUTE)
    rank.range("layer", start_ns, layer)


def _all_reduce(rank: Rank) -> None:
    rank.order(COMPUTE, COMM)
    rank.kernel("allreduce", 12_000, COMM)
    rank.order(COMM, COMPUTE)


def _meet(ranks: list[Rank]) -> None:
    """Start the next step together, as ranks of one scheduler do."""
    together = max(rank.host_ns for rank in ranks)
    for rank in ranks:
        rank.host_ns = together
