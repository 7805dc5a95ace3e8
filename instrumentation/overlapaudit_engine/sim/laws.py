"""Two laws of contention. What passes under one alone has learnt that law, not GPUs.

`fair` is arithmetic: every resource is shared max-min and loses nothing by being shared. `rough`
disturbs: caches are lost to neighbours, memory and PCIe lose by mixing directions, and a power cap
slows whatever computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from overlapaudit_engine.hardware.hardware import Hardware


class Resource(NamedTuple):
    """Something that is shared: sms, hbm, h2d, d2h, link_out, link_in, nic_out, nic_in."""

    kind: str
    device: int


@dataclass(slots=True)
class Load:
    """What an operation asks for at its natural speed.

    Attributes:
        uses: bytes a ns of each resource; of `sms` the share of all SMs.
        reads: of the bytes of `hbm`, the share that is read.
        working_set: what it wants to find in L2.
        power: the share of the device's power.
    """

    uses: dict[Resource, float]
    reads: float = 0.5
    working_set: int = 0
    power: float = 0.0


Adjusted = tuple[list[dict[Resource, float]], list[float], dict[Resource, float]]


class Law(Protocol):
    """What becomes of loads that meet."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def blocks_stay(self) -> bool:
        """Whether a persistent kernel keeps the places that it found at its start."""

    def adjusted(self, loads: Sequence[Load], capacities: Mapping[Resource, float]) -> Adjusted:
        """Give what each uses at speed 1, how fast each may go, and what there is."""


# Shares of SMs are added up in floating point.
_ALL_SMS = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Fair:
    """Nothing is lost by sharing."""

    name: str = "fair"
    blocks_stay: bool = False

    def adjusted(self, loads: Sequence[Load], capacities: Mapping[Resource, float]) -> Adjusted:
        """Give loads and capacities as they are."""
        uses = [load.uses for load in loads]
        return uses, [1.0] * len(loads), _of(uses, capacities)


@dataclass(frozen=True, slots=True)
class Rough:
    """Sharing has a price, and each resource another one.

    Attributes:
        hardware: of the devices.
        l2_loss: how much more is read from HBM when nothing of a working set stays in L2.
        mixing_loss: what HBM loses when reads and writes are equal.
    """

    hardware: Hardware
    l2_loss: float = 0.6
    mixing_loss: float = 0.15
    name: str = "rough"
    blocks_stay: bool = True

    def adjusted(self, loads: Sequence[Load], capacities: Mapping[Resource, float]) -> Adjusted:
        """Let loads disturb each other."""
        uses = [dict(load.uses) for load in loads]
        limits = [1.0] * len(loads)
        have = _of(uses, capacities)
        for device in sorted({resource.device for resource in have}):
            here = [number for number, load in enumerate(loads) if _is_on(load, device)]
            self._lose_cache(device, here, loads, uses)
            self._mix(device, here, loads, uses, have)
            self._cap_power(device, here, loads, limits)
            self._both_ways(device, have)
        return uses, limits, have

    def _lose_cache(
        self,
        device: int,
        here: Sequence[int],
        loads: Sequence[Load],
        uses: Sequence[dict[Resource, float]],
    ) -> None:
        """Read again what neighbours drove out of L2; one alone has what it needs in its bytes."""
        wanted = sum(loads[number].working_set for number in here)
        alone = max((loads[number].working_set for number in here), default=0)
        room = max(self.hardware.l2_bytes, alone)
        if wanted <= room:
            return
        lost = (wanted - room) / wanted
        hbm = Resource("hbm", device)
        for number in here:
            if loads[number].working_set and hbm in uses[number]:
                uses[number][hbm] *= 1 + self.l2_loss * lost

    def _mix(
        self,
        device: int,
        here: Sequence[int],
        loads: Sequence[Load],
        uses: Sequence[dict[Resource, float]],
        have: dict[Resource, float],
    ) -> None:
        hbm = Resource("hbm", device)
        if hbm not in have:
            return
        read = sum(uses[number].get(hbm, 0.0) * loads[number].reads for number in here)
        all_of_it = sum(uses[number].get(hbm, 0.0) for number in here)
        if all_of_it > 0:
            less = min(read, all_of_it - read) / all_of_it
            have[hbm] *= 1 - self.mixing_loss * 2 * less

    def _cap_power(
        self, device: int, here: Sequence[int], loads: Sequence[Load], limits: list[float]
    ) -> None:
        drawn = sum(loads[number].power for number in here)
        if drawn > 1:
            for number in here:
                if Resource("sms", device) in loads[number].uses:
                    limits[number] = min(limits[number], 1 / drawn)

    def _both_ways(self, device: int, have: dict[Resource, float]) -> None:
        h2d, d2h = Resource("h2d", device), Resource("d2h", device)
        if h2d in have and d2h in have:
            have[h2d], have[d2h] = self.hardware.pcie_both


def _is_on(load: Load, device: int) -> bool:
    return any(resource.device == device for resource in load.uses)


def _of(
    uses: Sequence[Mapping[Resource, float]], capacities: Mapping[Resource, float]
) -> dict[Resource, float]:
    """Give the capacities of what is used."""
    used = dict.fromkeys(resource for one in uses for resource in one)
    return {
        resource: _ALL_SMS if resource.kind == "sms" else capacities[resource] for resource in used
    }
