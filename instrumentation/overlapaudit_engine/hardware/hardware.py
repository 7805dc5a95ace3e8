"""What a virtual GPU and its host are made of, read from data files that cite their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """A cost of the host or the device, as percentiles in ns."""

    p10: int
    p50: int
    p90: int
    p99: int


@dataclass(frozen=True, slots=True)
class Hardware:
    """A GPU and the host beside it. Rates are bytes (or operations) a ns, times are ns.

    Attributes:
        name: short, as on the command line ("h100").
        product: as the driver calls it.
        chip: "GH100".
        compute_major: compute capability.
        compute_minor: compute capability.
        sms: streaming multiprocessors.
        clock_hz: of the SMs, at full speed.
        hbm_bytes: memory of the device.
        hbm_rate: of HBM at its data sheet's figure.
        hbm_share: of it that a kernel reaches alone.
        l2_bytes: second-level cache.
        flops: dense bf16 operations a ns of the whole device.
        flops_share: of them that a GEMM reaches when its waves are full.
        blocks_per_sm: at most.
        warps_per_sm: at most.
        registers_per_sm: 32-bit registers.
        shared_per_sm: bytes of shared memory.
        pcie_h2d: pinned, alone.
        pcie_d2h: pinned, alone.
        pcie_both: (h2d, d2h) when both directions are busy.
        pageable_rate: of a copy from or to pageable memory.
        d2d_rate: of a copy inside the device, bytes counted once.
        link_rate: NVLink, one way.
        nic_rate: network, one way.
        power_watts: the cap.
        copy_base: what a copy engine takes for the smallest copy.
        memset_base: what the smallest memset takes.
        launch_latency: call start to kernel start when the stream is empty.
        copy_latency: the same for a copy.
        stream_gap: end of an operation to start of the next in its stream, queued well ahead.
        event_gap: end of an operation to start of one that waits for its event in another stream.
        graph_gap: end of a node to start of one that depends on it.
        wake_up: end of what a thread waited for to the return of its call.
        graph_node_ns: what a launch of a graph costs the host for each node.
        queue_depth: launches that a hardware queue holds before a call has to wait.
        calls: what calls cost the host, by plain API name; `*` stands for all others.
        collective_base: what a collective takes before its first byte, inside a node.
        collective_share: of the link that large messages reach.
        sources: where each figure is from, by attribute.
    """

    name: str
    product: str
    chip: str
    compute_major: int
    compute_minor: int
    sms: int
    clock_hz: int
    hbm_bytes: int
    hbm_rate: float
    hbm_share: float
    l2_bytes: int
    flops: float
    flops_share: float
    blocks_per_sm: int
    warps_per_sm: int
    registers_per_sm: int
    shared_per_sm: int
    pcie_h2d: float
    pcie_d2h: float
    pcie_both: tuple[float, float]
    pageable_rate: float
    d2d_rate: float
    link_rate: float
    nic_rate: float
    power_watts: int
    copy_base: Spread
    memset_base: Spread
    launch_latency: Spread
    copy_latency: Spread
    stream_gap: Spread
    event_gap: Spread
    graph_gap: Spread
    wake_up: Spread
    graph_node_ns: int
    queue_depth: int
    calls: Mapping[str, Spread]
    collective_base: int
    collective_share: float
    sources: Mapping[str, str]

    def call(self, name: str) -> Spread:
        """Give what a call costs the host when it waits for nothing."""
        return self.calls.get(name) or self.calls["*"]
