"""Stream capture: which nodes a new one waits for, across the streams that take part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlapaudit_engine.sim.graphs import Graph, Node
from overlapaudit_engine.sim.streams import Stream
from overlapaudit_engine.work import Work


@dataclass(slots=True)
class Capture:
    """A capture under way: it began in `origin`; waits for captured events bring streams in."""

    graph: Graph
    origin: Stream
    _last: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _lane: dict[int, int] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        """How many streams took part."""
        return max(1, len(self._lane))

    def last_of(self, stream: Stream) -> tuple[int, ...]:
        """Give the nodes that what comes next in a stream waits for."""
        return self._last.get(id(stream), ())

    def join(self, stream: Stream, after: tuple[int, ...]) -> None:
        """Let what comes next in a stream wait for these nodes too."""
        self._last[id(stream)] = tuple(dict.fromkeys((*self.last_of(stream), *after)))

    def add(
        self,
        stream: Stream,
        work: Work,
        site: str,
        function: Callable[[], object] | None,
        group: str | None,
    ) -> int:
        """Capture a piece of work; give the number of its node."""
        if id(self.origin) not in self._lane:
            self._lane[id(self.origin)] = 0
        lane = self._lane.setdefault(id(stream), len(self._lane))
        number = len(self.graph.nodes)
        self.graph.nodes.append(Node(work, site, self.last_of(stream), lane, function, group))
        self._last[id(stream)] = (number,)
        return number

    def check_joined(self) -> None:
        """See that all streams came back to where the capture began.

        Raises:
            ValueError: a stream has work that nothing in the origin waits for.
        """
        seen: set[int] = set()
        left = list(self.last_of(self.origin))
        while left:
            number = left.pop()
            if number not in seen:
                seen.add(number)
                left += self.graph.nodes[number].after
        if len(seen) < len(self.graph.nodes):
            raise ValueError("capture ended with streams that were not joined")
