"""A policy: which findings count, and from what size. Read from TOML.

select = ["OA0"]            # codes or beginnings of codes; default: all
ignore = ["OA006"]
allow_waits = ["iteration.result_d2h", "iteration.process"]  # ranges in which waiting is meant

[thresholds.OA008]
warning_share = 0.2
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from overlapaudit.model.errors import UsageError
from overlapaudit.rules.catalogue import RULES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = ("select", "ignore", "allow_waits", "thresholds")
# Where an engine is meant to wait: it needs the tokens of a step before it can go on.
MEANT_TO_WAIT = ("iteration.result_d2h", "iteration.process")


@dataclass(frozen=True, slots=True)
class Policy:
    """Which codes are reported, and the thresholds that differ from the catalogue's.

    `allow_waits` names the ranges in which waits are no findings: `level.phase`, or the name of a
    range, in which * stands for anything.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    allow_waits: tuple[str, ...] = MEANT_TO_WAIT
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def reports(self, code: str) -> bool:
        """Tell whether findings of this code are reported; the longer of two patterns wins."""
        selected = max((len(p) for p in self.select if code.startswith(p)), default=-1)
        if not self.select:
            selected = 0
        ignored = max((len(p) for p in self.ignore if code.startswith(p)), default=-1)
        return selected > ignored

    def threshold(self, code: str, name: str) -> float:
        """Give a threshold of a rule."""
        return self.thresholds.get(code, {}).get(name, RULES[code].thresholds[name].default)

    def narrowed(self, select: Iterable[str], ignore: Iterable[str]) -> Policy:
        """Give this policy with the command line's choice in place of, or added to, its own.

        Raises:
            UsageError: a pattern fits no code.
        """
        chosen, left_out = _patterns(select, "--select"), _patterns(ignore, "--ignore")
        return replace(self, select=chosen or self.select, ignore=self.ignore + left_out)


DEFAULT_POLICY = Policy()


def load_policy(file: Path) -> Policy:
    """Read a policy file.

    Raises:
        UsageError: it cannot be read, or says something that no policy can.
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file.name}: cannot read the policy ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file.name}: not TOML ({_first_line(error)})") from error
    for key in content:
        if key not in _KEYS:
            raise UsageError(f"{file.name}: unknown key '{key}'; a policy has {', '.join(_KEYS)}")
    return Policy(
        select=_patterns(_strings(content, "select", file), file.name),
        ignore=_patterns(_strings(content, "ignore", file), file.name),
        allow_waits=_names(content, file),
        thresholds=_thresholds(content.get("thresholds", {}), file),
    )


def _patterns(given: Iterable[str], origin: str) -> tuple[str, ...]:
    """Split at commas, and check that each pattern begins some code."""
    patterns = [part.strip().upper() for text in given for part in text.split(",")]
    for pattern in patterns:
        if not pattern or not any(code.startswith(pattern) for code in RULES):
            raise UsageError(
                f"{origin}: '{pattern}' fits no finding code; 'overlapaudit rules' lists them"
            )
    return tuple(patterns)


def _strings(content: Mapping[str, Any], key: str, file: Path, what: str = "codes") -> list[str]:
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{file.name}: {key} must be a list of {what}")
    return value


def _names(content: Mapping[str, Any], file: Path) -> tuple[str, ...]:
    """Give the ranges of `allow_waits`; a file that says nothing of it leaves the usual ones."""
    if "allow_waits" not in content:
        return MEANT_TO_WAIT
    names = _strings(content, "allow_waits", file, "ranges")
    if not all(names):
        raise UsageError(f"{file.name}: allow_waits holds an empty name")
    return tuple(names)


def _thresholds(given: object, file: Path) -> dict[str, dict[str, float]]:
    if not isinstance(given, dict):
        raise UsageError(f"{file.name}: thresholds must be a table")
    checked: dict[str, dict[str, float]] = {}
    for code, values in given.items():
        if code not in RULES or not isinstance(values, dict):
            raise UsageError(f"{file.name}: thresholds.{code}: no such finding code")
        for name, value in values.items():
            known = RULES[code].thresholds
            if name not in known:
                raise UsageError(
                    f"{file.name}: thresholds.{code}.{name}: {code} has "
                    f"{', '.join(known) or 'no thresholds'}"
                )
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise UsageError(
                    f"{file.name}: thresholds.{code}.{name} must be a share from 0 to 1"
                )
            checked.setdefault(code, {})[name] = float(value)
    return checked


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
