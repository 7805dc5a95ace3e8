"""What runs on the devices, how fast, and when each part of it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlapaudit_engine.sim.laws import Law, Load, Resource
from overlapaudit_engine.sim.speeds import fair_speeds
from overlapaudit_engine.sim.timeline import Happening, Timeline


@dataclass(slots=True, eq=False)
class Running:
    """An operation under way: it makes `speed` ns of progress a ns.

    Attributes:
        number: in the order of starting.
        load: what it asks for at speed 1.
        next_at: the progress at which `on_reached` is called, None for never.
        on_reached: what happens then; it may change the load and `next_at`.
    """

    number: int
    load: Load
    next_at: float | None
    on_reached: Callable[[Running], None]
    speed: float = 1.0
    progress: float = 0.0
    since_ns: int = 0
    happening: Happening | None = None


@dataclass(slots=True)
class Sharing:
    """From a moment on, who gets what of the resources that a set of operations share.

    Attributes:
        at_ns: from when.
        capacities: bytes a ns of each resource.
        taken: what each operation takes of each, by its number.
        ended: the numbers of those that have ended.
    """

    at_ns: int
    capacities: dict[Resource, float]
    taken: dict[int, dict[Resource, float]]
    ended: tuple[int, ...]


@dataclass(slots=True)
class Runs:
    """All operations under way. Changes are put together and settled once a moment."""

    timeline: Timeline
    law: Law
    capacities: dict[Resource, float]
    watch: Callable[[Sharing], None] | None = None
    _users: dict[Resource, dict[int, Running]] = field(default_factory=dict)
    _changed: dict[int, Running] = field(default_factory=dict)
    _touched: dict[Resource, None] = field(default_factory=dict)
    _ended: list[int] = field(default_factory=list)
    _count: int = 0
    _settling: Happening | None = None

    def begin(
        self, load: Load, next_at: float | None, on_reached: Callable[[Running], None]
    ) -> Running:
        """Start an operation."""
        self._count += 1
        running = Running(self._count, load, next_at, on_reached, since_ns=self.timeline.now_ns)
        for resource in load.uses:
            self._users.setdefault(resource, {})[running.number] = running
        self.change(running)
        return running

    def change(self, running: Running) -> None:
        """Say that the load of an operation, or when it is to be looked at next, has changed.

        A load may change its amounts, not its resources.
        """
        self._changed[running.number] = running
        self._touched.update(dict.fromkeys(running.load.uses))
        if self._settling is None:
            self._settling = self.timeline.at(self.timeline.now_ns, self._settle)

    def go_on(self, running: Running) -> None:
        """Look at an operation again when it reaches its new `next_at`; its load is the same."""
        if running.number not in self._changed:
            self._go_on_at(running, running.speed)

    def end(self, running: Running) -> None:
        """Take an operation away."""
        self.timeline.call_off(running.happening)
        running.happening = None
        running.next_at = None
        self.change(running)
        del self._changed[running.number]
        self._ended.append(running.number)
        for resource in running.load.uses:
            del self._users[resource][running.number]

    def advance(self, running: Running) -> None:
        """Bring the progress of an operation up to now."""
        now_ns = self.timeline.now_ns
        running.progress += running.speed * (now_ns - running.since_ns)
        running.since_ns = now_ns

    def _settle(self) -> None:
        self._settling = None
        changed, self._changed = self._changed, {}
        touched, self._touched = self._touched, {}
        ended, self._ended = self._ended, []
        together = self._reached_from(changed, touched)
        loads = [running.load for running in together]
        adjusted, limits, capacities = self.law.adjusted(loads, self.capacities)
        speeds = fair_speeds(adjusted, limits, capacities)
        for running, speed in zip(together, speeds, strict=True):
            if speed != running.speed or running.number in changed:
                self._go_on_at(running, speed)
        if self.watch is not None:
            taken = {
                running.number: {resource: amount * speed for resource, amount in uses.items()}
                for running, uses, speed in zip(together, adjusted, speeds, strict=True)
            }
            self.watch(Sharing(self.timeline.now_ns, capacities, taken, tuple(ended)))

    def _reached_from(
        self, changed: dict[int, Running], touched: dict[Resource, None]
    ) -> list[Running]:
        """Give all that share a resource with these, and what those share one with."""
        found = dict(changed)
        seen: dict[Resource, None] = {}
        to_look_at = list(touched)
        while to_look_at:
            resource = to_look_at.pop()
            if resource in seen:
                continue
            seen[resource] = None
            for number, running in self._users.get(resource, {}).items():
                found[number] = running
                to_look_at += [other for other in running.load.uses if other not in seen]
        return [found[number] for number in sorted(found)]

    def _go_on_at(self, running: Running, speed: float) -> None:
        self.advance(running)
        running.speed = speed
        self.timeline.call_off(running.happening)
        running.happening = None
        if running.next_at is None or speed <= 0:
            return
        left = max(running.next_at - running.progress, 0.0)

        def reached() -> None:
            self.advance(running)
            running.happening = None
            # A time is a whole ns: what was reached is what the time was set for.
            assert running.next_at is not None
            running.progress = running.next_at
            running.on_reached(running)

        running.happening = self.timeline.at(running.since_ns + int(left / speed + 0.5), reached)
