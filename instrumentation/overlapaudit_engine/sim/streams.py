"""Streams, the hardware queues behind them, and when a command may begin.

A command begins when the call that asked for it has reached the device, the work before it in its
stream has ended, and what it was told to wait for has ended. Streams share hardware queues: what
stands at the head of a queue and may not begin yet holds up all that stands behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from overlapaudit_engine.sim.task import NEVER, Cause, Release, Task
from overlapaudit_engine.sim.timeline import Happening, Timeline

Gap = Callable[[Task, Release], int]


@dataclass(slots=True, eq=False)
class Stream:
    """A stream of a process on one device."""

    number: int
    process: int
    device: int
    context: int
    priority: int
    non_blocking: bool
    is_null: bool
    queue: Queue
    last: Task | None = None


@dataclass(slots=True, eq=False)
class Queue:
    """A hardware queue: `begin` takes the commands that may begin, in order."""

    timeline: Timeline
    gap: Gap
    begin: Callable[[Task], None]
    depth: int
    when_room: deque[Callable[[], None]] = field(default_factory=deque)
    _commands: deque[Task] = field(default_factory=deque)
    _head_since_ns: int = 0
    _left_last: Task | None = None
    _last_arrival_ns: int = 0
    _coming: Happening | None = None

    @property
    def is_full(self) -> bool:
        """Whether a call would have to wait for room."""
        return len(self._commands) >= self.depth

    def add(self, task: Task) -> None:
        """Take a command; it reaches the device no earlier than those before it."""
        task.arrive_ns = self._last_arrival_ns = max(task.arrive_ns, self._last_arrival_ns)
        self._commands.append(task)
        if len(self._commands) == 1:
            self._head_since_ns = self.timeline.now_ns
            self._look()

    def _look(self) -> None:
        """See whether the head may begin, and come back when it might."""
        while self._commands:
            task = self._commands[0]
            now_ns = self.timeline.now_ns
            for other in self._needed(task):
                if not other.done:
                    other.when_done.append(self._look_later)
                    return
            causes = self._causes(task)
            ready = max(causes, key=lambda cause: cause.at_ns)
            if ready.at_ns > now_ns:
                self._look_at(ready.at_ns)
                return
            task.ready_ns = now_ns
            task.ready_by = ready
            self._commands.popleft()
            self._head_since_ns = now_ns
            self._left_last = task
            self.begin(task)
            if self.when_room and not self.is_full:
                self.when_room.popleft()()

    def _look_later(self) -> None:
        # Not at once: whoever ends is still telling others.
        self._look_at(self.timeline.now_ns)

    def _look_at(self, when_ns: int) -> None:
        self.timeline.call_off(self._coming)
        self._coming = self.timeline.at(when_ns, self._look)

    def _needed(self, task: Task) -> list[Task]:
        before = [] if task.before is None else [task.before]
        return before + [other for other, _ in task.after]

    def _causes(self, task: Task) -> list[Cause]:
        """Give what it had to wait for, each with the moment from which it no longer had to."""
        marker = task.work is None
        causes = [Cause(Release.LAUNCH, call=task.call, at_ns=task.arrive_ns)]
        before = task.before
        if before is not None:
            if before.done_stream_ns != NEVER:
                gap_ns = 0 if marker else self.gap(task, Release.STREAM)
                causes.append(
                    Cause(Release.STREAM, before.stream_by, at_ns=before.done_stream_ns + gap_ns)
                )
            if before.done_event_ns != NEVER:
                gap_ns = 0 if marker else self.gap(task, Release.EVENT)
                causes.append(
                    Cause(Release.EVENT, before.event_by, at_ns=before.done_event_ns + gap_ns)
                )
        for other, kind in task.after:
            gap_ns = 0 if marker else self.gap(task, kind)
            causes.append(Cause(kind, _real(other), at_ns=other.end_ns + gap_ns))
        if self._left_last is not None and self._left_last.stream is not task.stream:
            causes.append(Cause(Release.QUEUE, self._left_last, at_ns=self._head_since_ns))
        return causes


def pass_on(task: Task, now_ns: int) -> None:
    """End a command that takes no time: what held the stream before it still does."""
    before = task.before
    if before is not None:
        task.done_stream_ns, task.stream_by = before.done_stream_ns, before.stream_by
        task.done_event_ns, task.event_by = before.done_event_ns, before.event_by
    for other, _ in task.after:
        if other.end_ns > task.done_event_ns:
            task.done_event_ns, task.event_by = other.end_ns, _real(other)
    task.finish(now_ns)


def _real(task: Task) -> Task | None:
    """Give the work that a record stands for: what ended last before it."""
    if task.work is not None:
        return task
    return task.stream_by if task.done_stream_ns >= task.done_event_ns else task.event_by
