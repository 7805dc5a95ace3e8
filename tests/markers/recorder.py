"""A profiler for tests: it writes down each call as a line, and keeps stacks as NVTX does."""

from __future__ import annotations

import threading
from collections import defaultdict


class Recorder:
    """Lines such as `push layer.attn 3`, in the order of the calls.

    `errors` holds what NVTX would take in silence: a pop without a push, a second end.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.stacks: dict[int, list[str]] = defaultdict(list)
        self.running: dict[int, str] = {}
        self._started = 0

    def event(self, level: str, head: str, payload: int | None, tail: str) -> str:
        assert head.startswith(f"{level}.")
        return head + tail if payload is None else f"{head}{tail} {payload}"

    def push(self, event: object) -> None:
        self.stacks[threading.get_ident()].append(str(event))
        self.lines.append(f"push {event}")

    def pop(self) -> None:
        stack = self.stacks[threading.get_ident()]
        if not stack:
            self.errors.append("pop of nothing")
            return
        self.lines.append(f"pop {stack.pop()}")

    def start(self, event: object) -> int:
        self._started += 1
        self.running[self._started] = str(event)
        self.lines.append(f"start {event}")
        return self._started

    def end(self, started: object) -> None:
        event = self.running.pop(int(str(started)), None)
        if event is None:
            self.errors.append(f"end of {started}, which does not run")
            return
        self.lines.append(f"end {event}")

    def mark(self, event: object) -> None:
        self.lines.append(f"mark {event}")

    def note(self, text: str) -> None:
        """Write down what a test does between calls."""
        self.lines.append(text)

    @property
    def here(self) -> list[str]:
        """What is open on this thread, the innermost last."""
        return list(self.stacks[threading.get_ident()])

    def take(self) -> list[str]:
        """Give the lines so far, and forget them."""
        lines, self.lines = self.lines, []
        return lines
