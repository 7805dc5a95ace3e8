"""A small device whose figures are easy to reckon with, and runs on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from overlapaudit_engine.hardware.hardware import Hardware, Spread
from overlapaudit_engine.sim.runtime import Runtime
from overlapaudit_engine.sim.world import World
from overlapaudit_engine.work import CopyWay, CopyWork, KernelWork, Memory


def flat(ns: int) -> Spread:
    return Spread(ns, ns, ns, ns)


PLAIN = Hardware(
    name="plain", product="Plain", chip="GX100", compute_major=9, compute_minor=0,
    sms=10, clock_hz=1_000_000_000, hbm_bytes=1 << 34, hbm_rate=1000.0, hbm_share=1.0,
    l2_bytes=1 << 20, flops=1000.0, flops_share=1.0,
    blocks_per_sm=32, warps_per_sm=64, registers_per_sm=65536, shared_per_sm=228 * 1024,
    pcie_h2d=50.0, pcie_d2h=40.0, pcie_both=(30.0, 20.0), pageable_rate=10.0, d2d_rate=400.0,
    link_rate=100.0, nic_rate=25.0, power_watts=700,
    copy_base=flat(0), memset_base=flat(0), launch_latency=flat(5000), copy_latency=flat(5000),
    stream_gap=flat(1000), event_gap=flat(1500), graph_gap=flat(500), wake_up=flat(2000),
    graph_node_ns=0, queue_depth=1000, calls={"*": flat(1000), "lazy_load": flat(0)},
    collective_base=0, collective_share=1.0, sources={},
)  # fmt: skip


def plain(**figures: object) -> Hardware:
    """Give the small device with other figures."""
    return replace(PLAIN, **figures)  # type: ignore[arg-type]


def kernel(
    blocks: int = 10, block_ns: float = 1000, name: str = "gemm", *, fit: int = 1, **more: object
) -> KernelWork:
    """Give a kernel of which `fit` blocks fit on an SM."""
    return KernelWork(
        name, "gemm", (blocks, 1, 1), (2048 // fit, 1, 1), block_ns, registers=16, **more
    )  # type: ignore[arg-type]


def copy(
    way: str, size: int, source: Memory | None = None, destination: Memory | None = None
) -> CopyWork:
    """Give a copy of pinned memory."""
    sides = {
        "h2d": (Memory.PINNED, Memory.DEVICE),
        "d2h": (Memory.DEVICE, Memory.PINNED),
        "d2d": (Memory.DEVICE, Memory.DEVICE),
        "p2p": (Memory.DEVICE, Memory.DEVICE),
    }[way]
    return CopyWork(CopyWay(way), size, source or sides[0], destination or sides[1])


def run(program: Callable[[Runtime], object], hardware: Hardware = PLAIN, **more: object) -> World:
    """Run a program on one thread of one process."""
    world = World(hardware, **more)  # type: ignore[arg-type]
    cuda = world.process()
    cuda.process.start(1, "main", lambda: program(cuda))
    world.run()
    return world


def times(world: World) -> list[tuple[str, int, int]]:
    """Give (name, start, end) of all work, by start."""
    rows = [(one.work.name, one.start_ns, one.end_ns) for one in world.log.kernels]
    rows += [(one.way.value, one.start_ns, one.end_ns) for one in world.log.copies]
    return sorted(rows, key=lambda row: (row[1], row[0]))
