"""A process with a profiler that writes down what it is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import overlapaudit_nvtx
from overlapaudit_nvtx import complaints, levels, requests, switches, thread_stack
from tests.markers.recorder import Recorder


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Give the profiler; all levels are on, and nothing is left of other tests."""
    monkeypatch.setattr(complaints, "_SAID", set())
    for made in (levels._LAYERS, levels._MECHS, requests._OPEN):
        made.clear()
    recorder = Recorder()
    switches.use_tool(recorder)
    overlapaudit_nvtx.enable()
    yield recorder
    assert recorder.errors == []
    assert not recorder.here
    assert not thread_stack._THREADS.opened
    switches.use_tool(None)


@pytest.fixture
def complained(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Give the complaints, which are filled in as they come."""
    texts: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    listener = Listener()
    logger = logging.getLogger("overlapaudit_nvtx")
    logger.addHandler(listener)
    yield texts
    logger.removeHandler(listener)
