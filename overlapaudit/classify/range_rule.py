"""One rule that tells what an NVTX range is about by its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from overlapaudit.classify.rule_files import compile_pattern, shown
from overlapaudit.model.errors import UsageError
from overlapaudit_nvtx.vocabulary import LEVELS

# Levels that no marker of ours has: library calls, framework operations, graph capture, and ranges
# that say nothing about time.
FOREIGN_LEVELS: Final = ("api", "op", "capture", "drop")
KNOWN_LEVELS: Final = (*LEVELS, *FOREIGN_LEVELS)

_REQUIRED = {"level", "phase", "re"}
_OPTIONAL = {"domain", "else", "engine", "map", "only_inside"}
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_ENGINE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+| -]*")
_LARGEST = 2**63 - 1

# Groups of a pattern that hold the range's number; `mod` holds a module's path with a layer in it.
_NUMBER_GROUPS = ("id", "iter", "layer", "stage", "n")
_LAYER = re.compile(r"\.layers\.([0-9]{1,18})(?:\.|$)")


class Meaning(NamedTuple):
    """What a rule makes of one text."""

    level: str
    phase: str
    engine: str | None
    key: int | None
    facts: str | None


@dataclass(frozen=True, slots=True)
class RangeRule:
    """A pattern (searched anywhere in the text) and what it gives; `$name` is a group of it."""

    level: str
    phase: str
    pattern: re.Pattern[str]
    engine: str | None = None
    domain: str | None = None  # None: any
    phases: Mapping[str, str] | None = None  # what the group of `phase` says, in our words
    other_phase: str | None = None  # for what `phases` lacks; None: as the text has it
    only_inside: str | None = None  # only where a range of this phase is around

    def meaning(self, text: str) -> Meaning | None:
        """Say what a text means by this rule, None if the rule does not match."""
        found = self.pattern.search(text)
        if found is None:
            return None
        groups = found.groupdict()
        level, phase = _filled(self.level, groups), _filled(self.phase, groups)
        if self.phases is not None:
            phase = self.phases.get(phase or "", self.other_phase or phase)
        if level is None or level not in KNOWN_LEVELS or not phase:
            return None
        return Meaning(level, phase, self.engine, _number(groups), groups.get("kv") or None)


def parse_rule(entry: object, where: str) -> RangeRule:
    """Check one rule of a file and take it; `where` names it in the error.

    Raises:
        UsageError: it is not a rule.
    """
    if not isinstance(entry, dict):
        raise UsageError(f'{where} must be {{"level": ..., "phase": ..., "re": ...}}')
    for unknown in sorted(entry.keys() - _REQUIRED - _OPTIONAL):
        known = ", ".join(sorted(_REQUIRED | _OPTIONAL))
        raise UsageError(f"{where} has the unknown key {shown(unknown)}; there are {known}")
    for missing in sorted(_REQUIRED - entry.keys()):
        raise UsageError(f"{where} has no {missing}")
    source = entry["re"]
    if not isinstance(source, str):
        raise UsageError(f"{where}: re must be a regular expression, not {shown(source)}")
    pattern = compile_pattern(source, where)
    level = _group_or(entry["level"], "level", pattern, where)
    if level is None and entry["level"] not in KNOWN_LEVELS:
        raise UsageError(
            f"{where}: level must be one of {', '.join(KNOWN_LEVELS)}, not {shown(entry['level'])}"
        )
    phase = _group_or(entry["phase"], "phase", pattern, where)
    phases = _phases(entry, phase, where)
    domain = entry.get("domain")
    if domain is not None and not isinstance(domain, str):
        raise UsageError(f"{where}: domain must be the name of a domain, not {shown(domain)}")
    return RangeRule(
        level=level or str(entry["level"]),
        phase=phase or _word(entry["phase"], "phase", _WORD, where),
        pattern=pattern,
        engine=_optional_word(entry, "engine", _ENGINE, where),
        domain=domain,
        phases=phases,
        other_phase=_optional_word(entry, "else", _WORD, where),
        only_inside=_optional_word(entry, "only_inside", _WORD, where),
    )


def _phases(entry: Mapping[str, object], phase: str | None, where: str) -> dict[str, str] | None:
    """Give the map of a rule; `phase` is its group's `$name`, None if it has none."""
    listed = entry.get("map")
    if listed is None:
        if entry.get("else") is not None:
            raise UsageError(f"{where}: else needs a map")
        return None
    if phase is None:
        raise UsageError(f"{where}: a map needs a phase that is a group of re, such as $p")
    if not isinstance(listed, dict) or not listed:
        raise UsageError(f"{where}: map must be {{what the group says: phase, ...}}")
    return {said: _word(word, "map", _WORD, where) for said, word in listed.items()}


def _group_or(word: object, key: str, pattern: re.Pattern[str], where: str) -> str | None:
    """Give `$name` if the word is one, None if it is a word of its own."""
    if not isinstance(word, str) or not word.startswith("$"):
        return None
    if word[1:] not in pattern.groupindex:
        raise UsageError(f"{where}: {key} is {shown(word)}, but re has no group of that name")
    return word


def _optional_word(
    entry: Mapping[str, object], key: str, form: re.Pattern[str], where: str
) -> str | None:
    word = entry.get(key)
    return None if word is None else _word(word, key, form, where)


def _word(word: object, key: str, form: re.Pattern[str], where: str) -> str:
    if not isinstance(word, str) or not form.fullmatch(word):
        raise UsageError(
            f"{where}: {key} must be a word (letters, digits, _ and dots), not {shown(word)}"
        )
    return word


def _filled(word: str, groups: Mapping[str, str | None]) -> str | None:
    return groups[word[1:]] if word.startswith("$") else word


def _number(groups: Mapping[str, str | None]) -> int | None:
    """Give the number that the pattern took from the text, if it fits."""
    for name in _NUMBER_GROUPS:
        digits = groups.get(name)
        if digits is not None and digits.isdecimal() and len(digits) <= 19:
            number = int(digits)
            return number if number <= _LARGEST else None
    layer = _LAYER.search(groups.get("mod") or "")
    return int(layer[1]) if layer else None
