"""Nothing that is wrong with a marker, or with what it was given, reaches the engine."""

from __future__ import annotations

import itertools
import logging
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlapaudit_nvtx import (
    cache,
    capturing,
    disable,
    enable,
    iteration,
    layer,
    mark,
    mech,
    request,
    switches,
    wording,
)
from overlapaudit_nvtx.vocabulary import format_message, parse_message
from tests.markers.recorder import Recorder


class Hostile:
    """An object of which everything raises."""

    def _fail(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError("hostile")

    __str__ = __repr__ = __hash__ = __eq__ = __index__ = __len__ = __bool__ = _fail  # type: ignore[assignment]
    __iter__ = __format__ = _fail  # type: ignore[assignment]


class Worse(Hostile):
    """And not even its class can be asked for."""

    @property
    def __class__(self) -> NoReturn:  # type: ignore[override]
        self._fail()


HOSTILE: Any = Hostile()
ODD: list[Any] = [HOSTILE, None, "", "no such", b"x", 3, 2.5, [], {}, ["a"], "\ud800", "a" * 9999]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_odd_arguments_are_survived(tool: Recorder, odd: Any) -> None:
    use_everywhere(tool, odd)


def test_the_worst_arguments_are_survived(tool: Recorder) -> None:
    use_everywhere(tool, Worse())


def use_everywhere(tool: Recorder, odd: Any) -> None:
    for make in (layer, iteration, cache, mech):
        for marker in (
            make(odd),
            make("tbo.a" if make is mech else "wait", odd),
            make("attn", 1, produces=odd, consumes=odd),
            make("step", 1, tokens=odd),
            make("step", 1, **{"Ä,|\n 9": odd}),
            make("attn", lambda: odd, whole=True),
        ):
            with marker:
                tool.note("ran")
            assert marker(lambda: "value")() == "value"
            marker.start().end()
            marker.mark()
    mark(odd, odd, odd)
    enable(odd)
    with capturing(odd):
        disable(odd)
        enable()
    layer("attn")(odd)
    mark("cache", "lookup", odd, more=odd)
    for one in (request(odd), request(7)):
        one.start(odd)
        one.end(odd)
        one.start("decode", more=odd)
        with one.phase("queue"):
            tool.note("ran")
        one.close()
    assert not tool.running
    lines = tool.take()
    assert lines.count("ran") == 4 * 6 + 2
    for line in lines:
        if line != "ran":
            text = line.partition(" ")[2]
            event, _, number = text.rpartition(" ")
            assert parse_message(event if event and number.lstrip("-").isdigit() else text), line


def test_words_are_cleaned_and_it_is_said_once(tool: Recorder, complained: list[str]) -> None:
    for _ in range(3):
        with mech("TBO-A..x"), layer("norm"), layer("attn", "three"):  # type: ignore[arg-type]
            pass
        with iteration("step", 1, Tokens=5, _2nd="a,b|c\nd"):
            pass
    assert tool.take()[:6] == [
        "push mech.tbo_a.x", "push layer.attn", "pop layer.attn", "pop mech.tbo_a.x",
        "push iteration.step|tokens=5,nd=a_b_c_d 1", "pop iteration.step|tokens=5,nd=a_b_c_d 1",
    ]  # fmt: skip
    assert len(complained) == 5
    (norm,) = (text for text in complained if "norm" in text)
    assert norm == (
        "no phase 'norm' of layer: attn, tp_comm, gate, dispatch, expert, combine, shared;"
        " the marker is left out"
    )


def test_data_without_end_is_cut(tool: Recorder) -> None:
    layer("attn", produces=map(str, itertools.count())).mark()
    (line,) = tool.take()
    assert line.count("produces=") == 64


def test_names_of_facts_that_are_right_stay(tool: Recorder, complained: list[str]) -> None:
    layer("attn", rank2=5, k_v_=6).mark()
    assert tool.take() == ["mark layer.attn|rank2=5,k_v_=6"]
    assert complained == []


@given(st.lists(st.tuples(st.text(), st.one_of(st.text(), st.integers()))))
def test_facts_are_written_as_the_vocabulary_writes_them(pairs: list[tuple[str, Any]]) -> None:
    clean = wording.facts(pairs)
    assert f"layer.attn{wording.tail(clean)}" == format_message("layer", "attn", clean)


def test_numbers_are_those_of_a_payload(tool: Recorder) -> None:
    class Index:
        def __index__(self) -> int:
            return 5

    keys: list[Any] = [-(2**63), 2**63 - 1, 2**63, True, Index(), 1.0]
    for key in keys:
        iteration("step", key).mark()
    assert tool.take() == [
        f"mark iteration.step{said}"
        for said in (f" {-(2**63)}", f" {2**63 - 1}", "", " 1", " 5", "")
    ]


@pytest.mark.parametrize("broken", ["event", "push", "pop", "start", "end", "mark"])
def test_a_tool_that_fails_is_survived(
    tool: Recorder, broken: str, monkeypatch: pytest.MonkeyPatch, complained: list[str]
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError("gone")

    failing = Recorder()
    monkeypatch.setattr(failing, broken, fail)
    switches.use_tool(failing)
    for _ in range(2):
        with layer("attn", 1), layer("gate", 1):
            request(1).start("decode")
            request(1).end()
            layer("attn", 1).mark()
        assert layer("attn", 1)(lambda: "value")() == "value"
    switches.use_tool(tool)
    assert complained
    assert len(complained) == len(set(complained)) <= 4


def test_a_handler_that_fails_is_survived(tool: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(logging.Handler):
        def handle(self, record: logging.LogRecord) -> NoReturn:
            raise OSError("disk full")

    logger = logging.getLogger("overlapaudit_nvtx")
    handler = Failing()
    logger.addHandler(handler)
    try:
        with layer("norm"):
            pass
    finally:
        logger.removeHandler(handler)


def test_other_things_than_functions_stay_what_they_are(
    tool: Recorder, complained: list[str]
) -> None:
    @layer("attn")  # type: ignore[type-var]
    class Module:
        pass

    assert isinstance(Module, type)
    assert isinstance(Module(), Module)
    assert layer("attn")(5) == 5  # type: ignore[type-var]
    assert len(complained) == 1


def test_interrupts_pass(tool: Recorder) -> None:
    class Interrupting:
        def __str__(self) -> NoReturn:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        request(Interrupting()).start("decode")
