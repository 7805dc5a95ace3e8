"""Work that was given to a device, and what released it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from overlapaudit_engine.work import Key, Work

if TYPE_CHECKING:
    from overlapaudit_engine.sim.graphs import GraphLaunch
    from overlapaudit_engine.sim.streams import Stream

NEVER = -1


class Release(str, Enum):
    """What a piece of work, or a thread, waited for last."""

    LAUNCH = "launch"  # the call that asked for it
    STREAM = "stream"  # the work before it in its stream
    EVENT = "event"  # an event of another stream
    DEFAULT_STREAM = "default_stream"  # the legacy default stream, or what that stream waits for
    GRAPH = "graph"  # a node before it in its graph
    QUEUE = "queue"  # a command before it in its hardware queue
    SMS = "sms"  # the blocks of another kernel
    ENGINE = "engine"  # another copy on its engine
    PEERS = "peers"  # the other ranks of a collective


@dataclass(slots=True)
class Cause:
    """Why something began when it did: the work (or the call, by its number) that it waited for."""

    kind: Release
    task: Task | None = None
    call: int | None = None
    at_ns: int = NEVER


@dataclass(slots=True, eq=False)
class Task:
    """A command in a stream. Records of events and waits for them are commands too.

    `done_stream_ns` and `done_event_ns` say until when its stream is held by work and by events:
    records and waits take no time and pass on what holds the stream.
    """

    number: int
    stream: Stream
    work: Work | GraphLaunch | None
    key: Key
    call: int
    correlation: int
    arrive_ns: int
    before: Task | None = None
    after: list[tuple[Task, Release]] = field(default_factory=list)
    function: Callable[[], object] | None = None
    group: str | None = None
    graph_node: int | None = None
    graph: int | None = None
    ready_ns: int = NEVER
    start_ns: int = NEVER
    end_ns: int = NEVER
    done_stream_ns: int = NEVER
    done_event_ns: int = NEVER
    stream_by: Task | None = None
    event_by: Task | None = None
    ready_by: Cause | None = None
    started_by: Cause | None = None
    peers_by: Cause | None = None
    when_done: list[Callable[[], None]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.end_ns != NEVER

    def finish(self, now_ns: int) -> None:
        """Note the end, and tell who waits for it."""
        self.end_ns = now_ns
        if self.function is not None:
            self.function()
        waiting, self.when_done = self.when_done, []
        for tell in waiting:
            tell()
