"""SMs, given out block by block in the order in which kernels became ready.

A kernel that has blocks left holds up those behind it: no block overtakes. A stream of higher
priority goes first, but nothing that has begun is taken away.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from overlapaudit_engine.hardware.hardware import Hardware
from overlapaudit_engine.sim import occupancy
from overlapaudit_engine.sim.laws import Law, Load, Resource
from overlapaudit_engine.sim.running import Running, Runs
from overlapaudit_engine.sim.task import NEVER, Cause, Release, Task
from overlapaudit_engine.sim.timeline import Happening
from overlapaudit_engine.work import CollectiveWork, KernelWork

# An SM in parts such that any whole number of blocks up to 32 divides it.
_PARTS = math.lcm(*range(1, 33))
# HBM is full from so many of all SMs on; a single SM can ask for no more than its part of that.
_SMS_THAT_FILL_HBM = 0.4


@dataclass(slots=True, eq=False)
class Placed:
    """A kernel on the device, or waiting for its first block to be placed.

    Attributes:
        needs: what a block takes of each kind of room.
        at_most: blocks at a time.
        block_ns: how long a block lasts at speed 1.
        pending: blocks that were not placed yet.
        resident: blocks that run.
        ends: (progress at which they end, how many) of the blocks that run, in order.
    """

    task: Task
    order: int
    needs: tuple[int, ...]
    share: float
    at_most: int
    block_ns: float
    bytes_of_block: float
    reads: float
    working_set: int
    power: float
    pending: int
    is_collective: bool
    stays: bool
    on_resident: Callable[[], None] | None = None
    resident: int = 0
    ends: deque[tuple[float, int]] = field(default_factory=deque)
    running: Running | None = None


@dataclass(slots=True)
class Sms:
    """The SMs of one device."""

    hardware: Hardware
    device: int
    runs: Runs
    law: Law
    on_end: Callable[[Task], None]
    _waiting: list[Placed] = field(default_factory=list)
    _free: list[int] = field(default_factory=list)
    _order: int = 0
    _freed_by: Task | None = None
    _placing: Happening | None = None
    _here: dict[int, Placed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with all SMs free."""
        self._free = [self.hardware.sms * one for one in self._room_of_sm()]

    def add(
        self,
        task: Task,
        work: KernelWork | CollectiveWork,
        factor: float,
        on_resident: Callable[[], None] | None = None,
    ) -> Placed:
        """Take a kernel that is ready; `factor` is how much longer its blocks last than planned.

        A collective stays until it is taken away; `on_resident` tells that all its blocks run.
        """
        self._order += 1
        placed = self._placed(task, work, factor, on_resident)
        self._waiting.append(placed)
        self._waiting.sort(key=lambda one: (one.task.stream.priority, one.order))
        self._place_soon()
        return placed

    def take_away(self, placed: Placed) -> None:
        """End a collective, and with it all its blocks."""
        assert placed.running is not None
        self._give_back(placed, placed.resident)
        self.runs.end(placed.running)
        self._ended(placed)

    def _placed(
        self,
        task: Task,
        work: KernelWork | CollectiveWork,
        factor: float,
        on_resident: Callable[[], None] | None,
    ) -> Placed:
        if isinstance(work, CollectiveWork):
            # A channel has an SM for itself: its threads are few, but they never leave it.
            return Placed(
                task, self._order, self._needs(1, work.threads, work.registers, 0), 1.0,
                work.channels, 0.0, 0.0, 0.5, 0, 0.0, work.channels,
                is_collective=True, stays=True, on_resident=on_resident,
            )  # fmt: skip
        fit = occupancy.blocks_per_sm(
            self.hardware, work.threads, work.registers, work.shared_bytes
        )
        moved = work.read_bytes + work.write_bytes
        share = 1 / fit
        of_block = moved / work.blocks
        fastest = (
            self.hardware.hbm_rate * self.hardware.hbm_share
            / (self.hardware.sms * _SMS_THAT_FILL_HBM)
        )  # fmt: skip
        sms = self.hardware.sms if work.sm_limit is None else work.sm_limit
        return Placed(
            task,
            self._order,
            self._needs(fit, work.threads, work.registers, work.shared_bytes),
            share,
            sms * fit,
            max(work.block_ns, of_block / (fastest * share), 1e-3) * factor,
            of_block * factor,
            work.read_bytes / moved if moved else 0.5,
            work.working_set_bytes,
            work.power,
            work.blocks,
            is_collective=False,
            stays=work.persistent and self.law.blocks_stay,
        )

    def _room_of_sm(self) -> tuple[int, ...]:
        hardware = self.hardware
        if not self.law.blocks_stay:
            return (_PARTS,)
        return (
            hardware.warps_per_sm,
            hardware.registers_per_sm,
            hardware.shared_per_sm,
            hardware.blocks_per_sm,
        )

    def _needs(self, fit: int, threads: int, registers: int, shared_bytes: int) -> tuple[int, ...]:
        """Give what a block takes: its part of an SM, or of each kind of room in it."""
        if not self.law.blocks_stay:
            return (_PARTS // fit,)
        return (
            occupancy.warps(threads),
            occupancy.registers_of_block(threads, registers),
            occupancy.shared_of_block(shared_bytes),
            1,
        )

    def _place_soon(self) -> None:
        if self._placing is None:
            self._placing = self.runs.timeline.at(self.runs.timeline.now_ns, self._place)

    def _place(self) -> None:
        self._placing = None
        for placed in list(self._waiting):
            number = min(
                placed.pending,
                placed.at_most - placed.resident,
                *(have // need for have, need in zip(self._free, placed.needs, strict=True)),
            )
            if number > 0:
                self._put(placed, number)
            if placed.pending == 0:
                self._waiting.remove(placed)
            elif placed.resident < placed.at_most:
                return  # no block overtakes one that found no room

    def _put(self, placed: Placed, number: int) -> None:
        now_ns = self.runs.timeline.now_ns
        placed.pending -= number
        placed.resident += number
        self._free = [
            have - number * need for have, need in zip(self._free, placed.needs, strict=True)
        ]
        if placed.running is None:
            self._began(placed, now_ns)
        assert placed.running is not None
        running = placed.running
        self.runs.advance(running)
        if placed.is_collective:
            if placed.pending == 0 and placed.on_resident is not None:
                placed.on_resident()
        else:
            placed.ends.append((running.progress + placed.block_ns, number))
        if placed.stays:
            placed.at_most = placed.resident
        self._reload(placed)

    def _began(self, placed: Placed, now_ns: int) -> None:
        task = placed.task
        task.start_ns = now_ns
        if now_ns > task.ready_ns != NEVER:
            task.started_by = Cause(Release.SMS, self._freed_by, at_ns=now_ns)
        load = Load({Resource("sms", self.device): 0.0})
        if placed.bytes_of_block:
            load.uses[Resource("hbm", self.device)] = 0.0
            load.reads = placed.reads
        load.working_set = placed.working_set
        placed.running = self.runs.begin(load, None, self._reached)
        self._here[placed.running.number] = placed

    def _reload(self, placed: Placed) -> None:
        """Say what the blocks that run ask for, and when the first of them end."""
        running = placed.running
        assert running is not None
        load = running.load
        share = placed.resident * placed.share / self.hardware.sms
        load.uses[Resource("sms", self.device)] = share
        load.power = placed.power * share
        if placed.bytes_of_block:
            rate = placed.resident * placed.bytes_of_block / placed.block_ns
            load.uses[Resource("hbm", self.device)] = rate
        running.next_at = placed.ends[0][0] if placed.ends else None
        self.runs.change(running)

    def _reached(self, running: Running) -> None:
        """End the blocks that are done, and place others."""
        placed = self._here[running.number]
        ended = 0
        # Half a ns of progress is the same moment.
        while placed.ends and placed.ends[0][0] - running.progress <= 0.5 * running.speed:
            ended += placed.ends.popleft()[1]
        again = self._next_tiles(placed, ended)
        self._give_back(placed, ended - again)
        if again:
            placed.pending -= again
            placed.ends.append((running.progress + placed.block_ns, again))
            if placed.pending == 0:
                self._place_soon()  # those behind it may have room
        if placed.resident == 0 and placed.pending == 0:
            self.runs.end(running)
            self._ended(placed)
        elif again == ended:
            running.next_at = placed.ends[0][0]
            self.runs.go_on(running)
        else:
            self._reload(placed)

    def _next_tiles(self, placed: Placed, ended: int) -> int:
        """Give how many blocks take the places of those that ended at once.

        A kernel that stays keeps its places; and one that no other comes before would get them.
        """
        first = bool(self._waiting) and self._waiting[0] is placed
        return min(ended, placed.pending) if placed.stays or first else 0

    def _give_back(self, placed: Placed, number: int) -> None:
        if number:
            placed.resident -= number
            self._free = [
                have + number * need for have, need in zip(self._free, placed.needs, strict=True)
            ]
            self._freed_by = placed.task
            self._place_soon()

    def _ended(self, placed: Placed) -> None:
        assert placed.running is not None
        del self._here[placed.running.number]
        self.on_end(placed.task)
