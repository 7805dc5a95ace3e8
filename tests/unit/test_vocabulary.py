"""The words of the markers: what one side writes, the other reads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlapaudit.classify.range_rules import RangeRules
from overlapaudit_nvtx import vocabulary
from overlapaudit_nvtx.vocabulary import (
    DOMAIN,
    LEVELS,
    PHASES,
    Fact,
    Level,
    Message,
    format_message,
    parse_facts,
    parse_message,
)

WORDS = [(level, phase) for level in LEVELS for phase in PHASES[level]] + [
    ("mech", "tbo.a"),
    ("mech", "dbo.0"),
    ("mech", "migration.stage"),
    ("mech", "eplb"),
]
VALUES = st.text(st.characters(codec="utf-8", exclude_characters=",|", exclude_categories=["C"]))
FACTS = st.lists(
    st.tuples(
        st.from_regex(r"[a-z][a-z0-9_]*", fullmatch=True),
        VALUES.filter(lambda text: not {"\u2028", "\u2029"} & set(text)),
    )
)


def test_every_level_has_phases() -> None:
    assert LEVELS == ("request", "iteration", "layer", "cache", "mech")
    assert set(PHASES) == set(LEVELS)
    assert PHASES["layer"] == (
        "attn", "tp_comm", "gate", "dispatch", "expert", "combine", "shared",
    )  # fmt: skip
    assert str(Level.MECH) == f"{Level.MECH}" == "mech"


def test_a_message_with_its_facts() -> None:
    text = format_message("iteration", "step", {"tokens": 512, "requests": 8})
    assert text == "iteration.step|tokens=512,requests=8"
    message = parse_message(text)
    assert message == Message(Level.ITERATION, "step", (("tokens", "512"), ("requests", "8")))
    assert message.fact(Fact.TOKENS) == "512"
    assert message.fact(Fact.ID) is None


def test_a_fact_may_come_twice() -> None:
    text = format_message("layer", "attn", [(Fact.CONSUMES, "kv:3"), (Fact.CONSUMES, "kv:4")])
    assert text == "layer.attn|consumes=kv:3,consumes=kv:4"
    message = parse_message(text)
    assert message is not None
    assert message.all_facts("consumes") == ("kv:3", "kv:4")
    assert message.fact("consumes") == "kv:3"


@given(st.sampled_from(WORDS), FACTS)
def test_what_is_written_is_read(words: tuple[str, str], facts: list[tuple[str, str]]) -> None:
    level, phase = words
    text = format_message(level, phase, facts)
    assert parse_message(text) == Message(Level(level), phase, tuple(facts))


@pytest.mark.parametrize(
    ("level", "phase", "facts", "said"),
    [
        ("step", "model", {}, "no level 'step'"),
        ("layer", "step", {}, "no phase 'step' of layer: attn, tp_comm"),
        ("layer", "", {}, "no phase ''"),
        ("mech", "tbo..a", {}, "mechanism.stage"),
        ("mech", "TBO", {}, "mechanism.stage"),
        ("layer", "attn", {"Tokens": 1}, "small letters"),
        ("layer", "attn", {"": 1}, "small letters"),
        ("request", "queue", {"id": "a,b"}, "fact id: no comma, bar"),
        ("request", "queue", {"id": "a|b"}, "fact id: no comma, bar"),
        ("request", "queue", {"id": "a\nb"}, "fact id: no comma, bar"),
    ],
)
def test_other_words_are_refused(
    level: str, phase: str, facts: dict[str, str | int], said: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        format_message(level, phase, facts)


@pytest.mark.parametrize(
    "text",
    ["", "layer", "layer.", "layer.attn x", "Layer.attn", " layer.attn", "layer.attn\n", "op.x"],
)
def test_other_texts_are_no_messages(text: str) -> None:
    assert parse_message(text) is None


def test_phases_of_later_versions_are_kept() -> None:
    assert parse_message("layer.norm") == Message(Level.LAYER, "norm")


def test_pieces_that_are_no_facts_are_left_out() -> None:
    assert parse_facts("tokens=1,,=2,x,Y=3,a=b|c,d=e=f,empty=") == (
        ("tokens", "1"),
        ("d", "e=f"),
        ("empty", ""),
    )
    assert (
        parse_message("layer.attn|") == parse_message("layer.attn|?") == parse_message("layer.attn")
    )


@given(
    st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\n")),
        st.from_regex(r"\A(layer|mech|iteration|x)\.?[a-z.]*(\|[a-z=,|]*)?\Z"),
    ).filter(lambda text: "\n" not in text)
)
def test_the_rules_of_the_analyser_take_the_same_texts(text: str) -> None:
    message = parse_message(text)
    found = [
        (meaning.level, meaning.phase, parse_facts(meaning.facts or ""))
        for rule, meaning in OURS.matches(text)
        if rule.engine == DOMAIN
    ]
    assert found == ([] if message is None else [(message.level, message.phase, message.facts)])


OURS = RangeRules.load().of_domain(DOMAIN)


def test_the_words_need_the_standard_library_alone() -> None:
    tree = ast.parse(Path(vocabulary.__file__).read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
        )
    }
    assert imported <= sys.stdlib_module_names


def test_reading_them_loads_nothing_heavy() -> None:
    program = "import sys, overlapaudit_nvtx.vocabulary; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "overlapaudit_nvtx" in loaded
    assert not loaded & {"nvtx", "torch", "numpy", "polars", "overlapaudit"}
