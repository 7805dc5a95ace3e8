"""Words of an engine made into those of the vocabulary: cleaned where they can be, else None."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from itertools import islice
from typing import Final, SupportsIndex, cast

from overlapaudit_nvtx.complaints import say_once
from overlapaudit_nvtx.vocabulary import PHASES, Fact, format_message

Facts = tuple[tuple[str, str], ...]

NOTHING: Final = ()  # there is one empty tuple alone, so that it is known by what it is
_LARGEST = 2**63 - 1
_LONGEST = 200  # characters of one value; request ids are shorter
_MOST_DATA = 64  # names of data in one message
_HEADS: dict[tuple[str, object], str] = {}
_MOST_HEADS = 1024  # stages of mechanisms are open, but few
_PRODUCES, _CONSUMES = Fact.PRODUCES.value, Fact.CONSUMES.value
_USUAL = frozenset(fact.value for fact in Fact)
_NOT_IN_STAGE = re.compile(r"[^a-z0-9_.]+")
_NOT_IN_KEY = re.compile(r"[^a-z0-9_]+")
# The characters that the vocabulary refuses in a value, and halves of surrogate pairs, which no
# encoding has.
_NOT_IN_VALUE = re.compile(r"[,|\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def head(level: str, phase: object) -> str | None:
    """Give `level.phase`, None where that is no phase of the level."""
    known = _HEADS.get((level, phase))
    if known is None:
        known = _head(level, phase)
        if known is not None and len(_HEADS) < _MOST_HEADS:
            _HEADS[level, phase] = known
    return known


def exact(word: object) -> str:
    """Give a word as a plain string, "" if it is none; a member of an enum may be one."""
    return str.__str__(word) if isinstance(word, str) else ""


def number(key: object) -> int | None:
    """Give what fits a payload: an integer of 64 bits, else None."""
    if isinstance(key, (str, bytes, float, complex)) or key is None:
        return None
    try:
        found = operator.index(cast(SupportsIndex, key))
    except TypeError:
        return None
    return int(found) if -_LARGEST - 1 <= found <= _LARGEST else None


def value(given: object) -> str:
    """Give the text of a value, without what a message cannot hold."""
    kind = type(given)
    text = str(given)[:_LONGEST]
    return text if kind is int else _NOT_IN_VALUE.sub("_", text)


def facts(
    named: Iterable[tuple[str, object]], produces: object = (), consumes: object = ()
) -> Facts:
    """Give facts in order: those by name, then what is produced, then what is consumed."""
    found: list[tuple[str, str]] = []
    for name, given in named:
        key = name if name in _USUAL else _key(name)
        if key and given is not None:
            found.append((key, value(given)))
    for key, several in ((_PRODUCES, produces), (_CONSUMES, consumes)):
        if several is not NOTHING:
            found += [(key, value(one)) for one in _several(several)]
    return tuple(found)


def tail(pairs: Facts) -> str:
    """Give the bar and what follows it in a message, as `format_message` would of clean facts."""
    return "|" + ",".join([f"{key}={text}" for key, text in pairs]) if pairs else ""


def _head(level: str, phase: object) -> str | None:
    word = exact(phase)
    if not PHASES[level]:
        stage = ".".join(filter(None, _NOT_IN_STAGE.sub("_", word.lower()).split(".")))
        if stage != word:
            say_once(f"stage {stage[:40]}", f"{level}: a stage is small letters and dots: {stage}")
        word = stage
    try:
        return format_message(level, word)
    except ValueError as error:
        text = f"{error}; the marker is left out"
        say_once(text[:80], text[:400])
        return None


def _key(name: str) -> str:
    key = _NOT_IN_KEY.sub("_", name.lower()).lstrip("_0123456789")
    if name != key:
        say_once(f"fact {name[:40]}", "the name of a fact is small letters, digits and _")
    return key


def _several(given: object) -> Iterable[object]:
    """Take one string or several."""
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        return (given,)
    return islice(cast(Iterable[object], given), _MOST_DATA)
