"""What an operation asks of a device: the one thing that its time follows from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class CopyWay(str, Enum):
    """Which way a copy goes."""

    H2D = "h2d"
    D2H = "d2h"
    D2D = "d2d"
    P2P = "p2p"
    H2H = "h2h"


class Memory(str, Enum):
    """Where memory is."""

    PAGEABLE = "pageable"
    PINNED = "pinned"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class KernelWork:
    """A kernel: its blocks, what each computes, and what all of them move.

    Attributes:
        name: the demangled function name, as a profiler shows it.
        op_class: what it is, in the words of the audit's kernel classes ("gemm", "attention").
        grid: blocks in x, y, z.
        block: threads of a block in x, y, z.
        block_ns: how long one block computes on its share of an SM at full clock, when it never
            waits for memory. The share is one part in as many as fit on an SM.
        read_bytes: what all blocks together read from HBM.
        write_bytes: what all blocks together write to HBM.
        registers: of a thread.
        static_shared_bytes: of a block.
        dynamic_shared_bytes: of a block.
        working_set_bytes: what it reads again and again, and finds in L2 if there is room.
        persistent: whether each of its blocks takes tile after tile until none is left. `grid` then
            counts tiles, and it launches one block for each place it finds.
        power: its share of the device's power when it fills all SMs, 1 for a dense GEMM.
        sm_limit: at most so many SMs, None for all of them.
    """

    name: str
    op_class: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    block_ns: float
    read_bytes: int = 0
    write_bytes: int = 0
    registers: int = 32
    static_shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    working_set_bytes: int = 0
    persistent: bool = False
    power: float = 0.5
    sm_limit: int | None = None

    @property
    def blocks(self) -> int:
        """Give the number of blocks (of tiles, if it is persistent)."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Give the threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def shared_bytes(self) -> int:
        """Give the shared memory of a block."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


@dataclass(frozen=True, slots=True)
class CollectiveWork:
    """A communication kernel of one rank: it holds SMs, waits for its peers, then transfers.

    Attributes:
        name: the demangled function name.
        op_class: its class ("comm.nccl", "comm.a2a.dispatch").
        channels: its blocks, each on an SM of its own, from its own start to the common end.
        threads: of a block.
        sent_bytes: what this rank sends over its link, one way.
        base_ns: what it takes however little is sent, after the last rank has come.
        read_bytes: what it reads from HBM while it transfers.
        write_bytes: what it writes to HBM while it transfers.
        registers: of a thread.
        network: whether it goes over the NIC, else over the links inside the node.
    """

    name: str
    op_class: str
    channels: int
    sent_bytes: int
    base_ns: int
    threads: int = 512
    read_bytes: int = 0
    write_bytes: int = 0
    registers: int = 96
    network: bool = False


@dataclass(frozen=True, slots=True)
class CopyWork:
    """A copy by a copy engine.

    Attributes:
        way: the direction.
        size: bytes.
        source: where from.
        destination: where to.
        peer: the other device of a peer copy.
    """

    way: CopyWay
    size: int
    source: Memory
    destination: Memory
    peer: int | None = None


@dataclass(frozen=True, slots=True)
class MemsetWork:
    """A memset of device memory."""

    size: int
    value: int = 0


@dataclass(frozen=True, slots=True)
class HostFunctionWork:
    """A function of the host in the order of a stream: it runs on a thread of the driver."""

    name: str
    host_ns: int


Work = KernelWork | CollectiveWork | CopyWork | MemsetWork | HostFunctionWork


@dataclass(frozen=True, slots=True)
class Key:
    """Which piece of work this is, whatever happens around it: twins share keys, and so noise.

    Attributes:
        rank: the process.
        iteration: the engine's step, -1 outside steps.
        site: what does it: the kernel's name or the call's, with the place where it is needed.
        number: how many of this site came before in this iteration.
    """

    rank: int
    iteration: int
    site: str
    number: int = field(default=0)
