"""One virtual clock, what happens on it in order, and the threads that wait for it.

Threads are greenlets: plain functions, of which one runs at a time, and which change places where
they wait. The order depends on times and on the order of asking, never on the machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from greenlet import GreenletExit, getcurrent, greenlet

Action = Callable[[], None]

# At equal times devices act before threads, so that a thread sees what ended at that moment.
_DEVICE, _THREAD = 0, 1


class Stuck(Exception):
    """Nothing will ever happen any more, and threads are waiting.

    Attributes:
        waiting: the names of the threads that wait.
    """

    def __init__(self, waiting: tuple[str, ...]) -> None:
        super().__init__(f"nothing can wake {', '.join(waiting)}")
        self.waiting = waiting


@dataclass(slots=True)
class Happening:
    """Something that will happen, unless it is called off: an action, or a thread goes on."""

    action: Action | None
    waiter: Waiter | None = None


@dataclass(slots=True, eq=False)
class Waiter:
    """A thread of control on the timeline."""

    name: str
    place: greenlet | None
    ended: bool = False
    when_ended: list[Waiter] = field(default_factory=list)


class Timeline:
    """The clock. `now_ns` never goes back."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[tuple[int, int, int, Happening]] = []
        self._asked = 0
        self._outside = getcurrent()
        self._here: Waiter | None = None
        self._threads: list[Waiter] = []
        self._error: BaseException | None = None

    @property
    def here(self) -> Waiter:
        """The thread of control that runs now.

        Raises:
            RuntimeError: none does.
        """
        if self._here is None:
            raise RuntimeError("not in a thread of the timeline")
        return self._here

    def at(self, when_ns: int, action: Action) -> Happening:
        """Let something happen at a time, not before now."""
        happening = Happening(action)
        self._put(when_ns, _DEVICE, happening)
        return happening

    def call_off(self, happening: Happening | None) -> None:
        """Let something not happen."""
        if happening is not None:
            happening.action = None

    def start(self, name: str, function: Action, at_ns: int | None = None) -> Waiter:
        """Start a thread of control that begins at a time (now)."""
        thread = Waiter(name, None)

        def run() -> None:
            try:
                function()
            except GreenletExit:
                return  # the timeline is gone
            except BaseException as error:  # noqa: BLE001, handed to whoever runs the timeline
                self._error = error
            thread.ended = True
            for other in thread.when_ended:
                self.wake(other)
            self._go_on(None)

        thread.place = greenlet(run, self._outside)
        self._threads.append(thread)
        self.wake(thread, at_ns)
        return thread

    def wait_until(self, when_ns: int) -> None:
        """Wait for a time; return at once if nothing else happens until then."""
        if not self._heap or self._heap[0][0] > when_ns:
            self.now_ns = max(self.now_ns, when_ns)
            return
        self.wake(self.here, when_ns)
        self.wait()

    def wait(self) -> None:
        """Wait to be woken."""
        self._go_on(self.here)

    def wake(self, thread: Waiter, when_ns: int | None = None) -> None:
        """Let a waiting thread go on at a time (now)."""
        when_ns = self.now_ns if when_ns is None else when_ns
        self._put(when_ns, _THREAD, Happening(None, thread))

    def join(self, thread: Waiter) -> None:
        """Wait for the end of a thread."""
        if not thread.ended:
            thread.when_ended.append(self.here)
            self.wait()

    def finish(self) -> None:
        """Let everything happen that will; called from outside all threads.

        Raises:
            Stuck: threads are left that nothing can wake.
        """
        self._go_on(None)
        self._here = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        waiting = tuple(thread.name for thread in self._threads if not thread.ended)
        if waiting:
            raise Stuck(waiting)

    def _put(self, when_ns: int, order: int, happening: Happening) -> None:
        self._asked += 1
        heapq.heappush(self._heap, (max(when_ns, self.now_ns), order, self._asked, happening))

    def _go_on(self, me: Waiter | None) -> None:
        """Let things happen until it is the turn of `me`; None: of nobody, until nothing is left.

        Whoever waits lets the others' things happen itself, so that most waits change no places.
        """
        heap = self._heap
        while heap and self._error is None:
            self.now_ns, _, _, happening = heapq.heappop(heap)
            if happening.action is not None:
                try:
                    happening.action()
                except Exception as error:  # noqa: BLE001, not of the thread that waits
                    self._error = error
            elif happening.waiter is me and me is not None:
                self._here = me
                return
            elif happening.waiter is not None:
                self._here = happening.waiter
                assert happening.waiter.place is not None
                happening.waiter.place.switch()
                if me is not None:
                    self._here = me
                    return  # only its own turn brings a thread back
        if getcurrent() is not self._outside:
            self._outside.switch()
