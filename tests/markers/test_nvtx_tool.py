"""What is done with the nvtx package, here without a profiler behind it."""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from overlapaudit_nvtx import iteration, layer, nvtx_tool, request, switches
from overlapaudit_nvtx.nvtx_tool import NvtxTool, open_tool
from overlapaudit_nvtx.plain_text import _Attributes, find_layout

library: Any = pytest.importorskip("nvtx._lib.lib")

ASCII, REGISTERED = 1, 3


@pytest.fixture
def tool() -> NvtxTool:
    return NvtxTool(library)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def structure(tool: NvtxTool, event: Any) -> _Attributes:
    assert tool._layout is not None, "this nvtx lays out its events in another way"
    return tool._layout._of(event.attributes)


def test_nobody_listens_here(tool: NvtxTool) -> None:
    assert not tool.has_listener()
    assert open_tool() is None


def test_calls_go_through(tool: NvtxTool) -> None:
    event = tool.event("layer", "layer.attn", 3, "")
    tool.push(event)
    tool.pop()
    tool.end(tool.start(event))
    tool.mark(event)


def test_plain_messages_are_registered_and_those_with_facts_are_not(tool: NvtxTool) -> None:
    plain = structure(tool, tool.event("layer", "layer.attn", 3, ""))
    assert (plain.message_type, plain.payload, plain.category) == (REGISTERED, 3, 3)
    event = tool.event("iteration", "iteration.step", -7, "|id=\u00e9\ud800")
    varying = structure(tool, event)
    assert (varying.message_type, varying.payload, varying.category) == (ASCII, -7, 2)
    text = ctypes.string_at(varying.message)
    assert text == "iteration.step|id=\u00e9?".encode()
    assert structure(tool, tool.event("layer", "layer.attn", None, "")).payload_type == 0


def test_an_event_is_made_once(tool: NvtxTool) -> None:
    assert tool.event("layer", "layer.attn", 3, "") is tool.event("layer", "layer.attn", 3, "")
    assert tool.event("layer", "layer.attn", 3, "") is not tool.event("layer", "layer.attn", 4, "")


def test_memory_does_not_grow_with_messages(tool: NvtxTool) -> None:
    def write(first: int, last: int) -> None:
        for number in range(first, last):
            tool.push(tool.event("iteration", "iteration.step", number, f"|tokens={number}"))
            tool.pop()

    write(0, 20_000)
    before = resident_bytes()
    write(20_000, 220_000)
    assert resident_bytes() - before < 8e6  # 40 bytes a message; one that is kept takes 800
    assert len(tool._kept) <= nvtx_tool._KEPT
    assert len(tool._strings) < 20


def test_memory_does_not_grow_with_markers(tool: NvtxTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx_tool, "_KEPT", 100)
    switches.use_tool(tool)
    try:
        for number in range(1_000):
            with iteration("step", number, tokens=number), layer("attn", number, rank=number):
                request(f"cmpl-{number}").start("decode")
                request(f"cmpl-{number}").close()
    finally:
        switches.use_tool(None)
    assert len(tool._kept) <= 100
    # Three heads, and what was registered to find out about the tool.
    assert {text for text in tool._strings if "|" in text} == set()


def test_where_texts_must_be_registered_only_so_many_are(
    tool: NvtxTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool._layout = None
    assert tool.has_listener()  # it cannot be told, so nothing may be lost
    monkeypatch.setattr(nvtx_tool, "_REGISTERED", len(tool._strings) + 3)
    for number in range(50):
        tool.event("iteration", "iteration.step", number, f"|tokens={number}")
    texts = [text for text in tool._strings if text.startswith("iteration")]
    assert texts == [*(f"iteration.step|tokens={number}" for number in range(3)), "iteration.step"]


def test_a_layout_that_is_not_proven_is_not_used() -> None:
    class Padded(ctypes.Structure):
        _fields_ = (("pad", ctypes.c_char * 512),)

    assert find_layout(lambda *_: Padded()) is None
    assert find_layout(lambda *_: object()) is None


@pytest.mark.parametrize("error", [ImportError, OSError, AttributeError, RuntimeError])
def test_a_broken_nvtx_is_as_good_as_none(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str) -> NoReturn:
        raise error(name)

    monkeypatch.setattr(nvtx_tool, "import_module", fail)
    assert open_tool() is None
    monkeypatch.setattr(nvtx_tool, "import_module", lambda name: SimpleNamespace())
    assert open_tool() is None


def test_nvtx_may_be_switched_off_by_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVTX_DISABLE", "1")
    monkeypatch.setattr(nvtx_tool, "import_module", lambda name: pytest.fail("loaded"))
    assert open_tool() is None
