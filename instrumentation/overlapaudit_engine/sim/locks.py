"""What threads of one process cannot hold at once: the interpreter, and the driver."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from overlapaudit_engine.sim.timeline import Timeline, Waiter

# After so long the interpreter lets another thread on, if one waits (sys.getswitchinterval).
SWITCH_INTERVAL_NS = 5_000_000


@dataclass(slots=True)
class Interpreter:
    """Python's lock: it is kept until its holder waits, or has had it for 5 ms.

    Attributes:
        hand_over_ns: from one thread to the next.
    """

    timeline: Timeline
    hand_over_ns: int
    _holder: Waiter | None = None
    _since_ns: int = 0
    _waiting: deque[Waiter] = field(default_factory=deque)

    def take(self) -> None:
        """Go on when the thread that runs now may."""
        me = self.timeline.here
        if self._holder is me:
            had_ns = self.timeline.now_ns - self._since_ns
            if not self._waiting or had_ns < SWITCH_INTERVAL_NS:
                return
            self.give()
        if self._holder is None:
            self._holder, self._since_ns = me, self.timeline.now_ns
            return
        self._waiting.append(me)
        self.timeline.wait()

    def give(self) -> None:
        """Let another thread on."""
        if self._holder is not self.timeline.here:
            return
        self._holder = None
        if self._waiting:
            self._holder = self._waiting.popleft()
            self._since_ns = self.timeline.now_ns + self.hand_over_ns
            self.timeline.wake(self._holder, self._since_ns)


@dataclass(slots=True)
class Driver:
    """The driver's lock: calls of one process go one after the other."""

    timeline: Timeline
    _held: bool = False
    _free_at_ns: int = 0
    _waiting: deque[Waiter] = field(default_factory=deque)

    def take(self) -> None:
        """Go on when no other call holds it, in order of asking; `hold_until` must follow."""
        me, timeline = self.timeline.here, self.timeline
        if self._held or self._waiting or self._free_at_ns > timeline.now_ns:
            self._waiting.append(me)
            if not self._held and len(self._waiting) == 1:
                timeline.wake(me, self._free_at_ns)
            timeline.wait()
            self._waiting.popleft()
        self._held = True

    def hold_until(self, when_ns: int) -> None:
        """Give it back at that time."""
        self._held = False
        self._free_at_ns = max(when_ns, self.timeline.now_ns)
        if self._waiting:
            self.timeline.wake(self._waiting[0], self._free_at_ns)
