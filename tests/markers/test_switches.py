"""Which levels are written: by the environment, at run time, at the capture of a graph."""

from __future__ import annotations

import subprocess
import sys

import pytest

from overlapaudit_nvtx import (
    capturing,
    disable,
    enable,
    enabled,
    iteration,
    layer,
    listening,
    mech,
    switches,
)
from overlapaudit_nvtx.vocabulary import LEVELS
from tests.markers.recorder import Recorder


@pytest.mark.parametrize(
    ("value", "levels", "complaints"),
    [
        (None, LEVELS, 0),
        ("", LEVELS, 0),
        ("all", LEVELS, 0),
        ("off", (), 0),
        ("none", (), 0),
        ("request,iteration", ("request", "iteration"), 0),
        (" Iteration , LAYER ", ("iteration", "layer"), 0),
        ("iteration,layers,step", ("iteration",), 1),
        ("1", (), 1),
        ("\x00é|", (), 1),
    ],
)
def test_the_environment_says_what_is_on(
    tool: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    complained: list[str],
    value: str | None,
    levels: tuple[str, ...],
    complaints: int,
) -> None:
    monkeypatch.setattr(switches, "open_tool", lambda: tool)
    monkeypatch.setattr(
        switches.os, "environ", {} if value is None else {"OVERLAPAUDIT_NVTX": value}
    )
    switches.start()
    assert enabled() == levels
    assert {name for name, switch in switches.SWITCHES.items() if switch.on} == set(levels)
    assert len(complained) == complaints


def test_levels_are_switched_at_run_time(tool: Recorder, complained: list[str]) -> None:
    disable()
    assert enabled() == ()
    enable("layer", "cache")
    disable("cache", "no such", 5)  # type: ignore[arg-type]
    enable("layers")
    assert enabled() == ("layer",)
    enable("all")
    assert enabled() == LEVELS
    assert len(complained) == 3


def test_without_a_tool_nothing_is_on_and_functions_stay_themselves() -> None:
    def function() -> None:
        pass

    assert not listening()
    enable()
    assert not any(switch.on for switch in switches.SWITCHES.values())
    assert layer("attn")(function) is function
    assert iteration("step", 1, whole=True)(function) is function
    with layer("attn", 3), mech("tbo.a"):
        assert layer("attn", 3).start() is iteration("step").start()


def test_layers_are_on_while_graphs_are_captured(tool: Recorder) -> None:
    disable()
    with pytest.raises(KeyError), capturing():
        with layer("attn", 1), capturing("iteration"), mech("tbo.a"), iteration("step"):
            pass
        with iteration("step"), layer("gate", 1):
            raise KeyError
    with layer("attn", 2), mech("tbo.a"):
        pass
    assert [line for line in tool.take() if line.startswith("push")] == [
        "push layer.attn 1", "push mech.tbo.a", "push iteration.step", "push layer.gate 1",
    ]  # fmt: skip


PROGRAM = """
import sys
{before}
from overlapaudit_nvtx import layer, listening, request
@layer("attn", 1)
def attend(): return 5
with layer("gate", 1): request("a").start("decode")
print(attend(), listening(), "nvtx" in sys.modules)
"""


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", ""),
        ("sys.modules['nvtx'] = None", ""),
        (
            "import os; os.environ['NVTX_INJECTION64_PATH'] = '/no/such.so'\n"
            "sys.modules['nvtx'] = None",
            "nvtx cannot be loaded (ModuleNotFoundError): no markers\n",
        ),
    ],
    ids=["no profiler", "no nvtx", "no nvtx for a profiler"],
)
def test_markers_do_nothing_where_nobody_listens(before: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("5 False ")
    assert done.stderr == said


def test_names_are_there_when_asked_for() -> None:
    program = (
        "import sys, overlapaudit_nvtx as o\n"
        "assert 'overlapaudit_nvtx.levels' not in sys.modules\n"
        "for name in o.__all__: assert getattr(o, name).__module__.startswith(o.__name__)\n"
        "assert 'torch' not in sys.modules\n"
        "try: o.nothing\n"
        "except AttributeError: print('ok')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "ok\n"
