"""The words of the markers: what an engine writes and the analyser reads.

A marker is an NVTX range (or mark) in the domain `overlapaudit`. Its category is the level, its
message `level.phase`, its payload the number that tells it from the others of its level. Further
facts follow after a bar: `iteration.step|tokens=512,requests=8`.

Only the standard library is imported here, so that both sides can use it wherever they run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

DOMAIN: Final = "overlapaudit"


class Level(str, Enum):
    """What a marker is about; the payload that goes with it is said beside each."""

    REQUEST = "request"  # request id, or a running number beside the fact `id`
    ITERATION = "iteration"  # iteration number
    LAYER = "layer"  # layer index
    CACHE = "cache"  # block count
    MECH = "mech"  # for the mechanism to say

    def __str__(self) -> str:
        return str(self.value)


class Fact(str, Enum):
    """The facts that have a meaning of their own; markers may carry others."""

    ID = "id"  # a request id that is not an integer
    TOKENS = "tokens"  # work key of a step: tokens in the batch
    REQUESTS = "requests"  # work key of a step: requests in the batch
    PRODUCES = "produces"  # the data that the marked work writes, such as kv:3
    CONSUMES = "consumes"  # the data that the marked work reads

    def __str__(self) -> str:
        return str(self.value)


LEVELS: Final = tuple(level.value for level in Level)

# The phases of each level. Those of `mech` are open: a mechanism and its stage (tbo.a, pp.send).
PHASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        Level.REQUEST.value: ("frontend", "queue", "prefill", "xfer", "decode"),
        Level.ITERATION.value: (
            "step",
            "schedule",
            "metadata_h2d",
            "model",
            "sample",
            "result_d2h",
            "process",
        ),
        Level.LAYER.value: ("attn", "tp_comm", "gate", "dispatch", "expert", "combine", "shared"),
        Level.CACHE.value: ("lookup", "l3_l2", "l2_l1", "wait", "fallback", "store"),
        Level.MECH.value: (),
    }
)

_STAGE = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_NOT_IN_VALUE = re.compile(r"[,|\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MESSAGE = re.compile(rf"({'|'.join(LEVELS)})\.([a-z0-9_.]+)(?:\|([^\n]*))?")


@dataclass(frozen=True, slots=True)
class Message:
    """What a marker says. Facts keep their order, and a key may come more than once."""

    level: Level
    phase: str
    facts: tuple[tuple[str, str], ...] = ()

    def fact(self, key: str) -> str | None:
        """Give the first fact of this key, None if there is none."""
        return next((value for name, value in self.facts if name == key), None)

    def all_facts(self, key: str) -> tuple[str, ...]:
        """Give every fact of this key, in order."""
        return tuple(value for name, value in self.facts if name == key)


def format_message(
    level: str,
    phase: str,
    facts: Mapping[str, str | int] | Iterable[tuple[str, str | int]] = (),
) -> str:
    """Write the message of a marker; `parse_message` reads it back.

    Args:
        level: one of `LEVELS`.
        phase: one of the level's `PHASES`; of `mech`, words with dots between them.
        facts: pairs of key and value, in the order in which they are written.

    Raises:
        ValueError: a word that is not in the vocabulary, a key that is not a name in small
            letters, or a value with a comma, a bar or a control character.
    """
    if level not in PHASES:
        raise ValueError(f"no level {level!r}: {', '.join(LEVELS)}")
    known = PHASES[level]
    if (phase not in known) if known else not _STAGE.fullmatch(phase):
        raise ValueError(f"no phase {phase!r} of {level}: {', '.join(known) or 'mechanism.stage'}")
    head = f"{level}.{phase}"
    pairs = facts.items() if isinstance(facts, Mapping) else facts
    tail = ",".join(_fact(key, value) for key, value in pairs)
    return f"{head}|{tail}" if tail else head


def parse_message(text: str) -> Message | None:
    """Read a marker's message, None if it is not one.

    Phases that are not in `PHASES` are kept as they are.
    """
    found = _MESSAGE.fullmatch(text)
    if found is None:
        return None
    level, phase, facts = found.groups()
    return Message(Level(level), phase, parse_facts(facts or ""))


def parse_facts(text: str) -> tuple[tuple[str, str], ...]:
    """Read what follows the bar of a message; a piece that is not `key=value` is left out."""
    pairs = (piece.partition("=") for piece in text.split(","))
    return tuple(
        (key, value)
        for key, equals, value in pairs
        if equals and _KEY.fullmatch(key) and not _NOT_IN_VALUE.search(value)
    )


def _fact(key: str, value: str | int) -> str:
    key, text = str(key), str(value)
    if not _KEY.fullmatch(key):
        raise ValueError(f"a fact's key is a name in small letters, not {key!r}")
    if _NOT_IN_VALUE.search(text):
        raise ValueError(f"fact {key}: no comma, bar or control character in {text!r}")
    return f"{key}={text}"
