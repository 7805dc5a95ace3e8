"""Read rule files: JSON with rules for kernels (`rules`), for ranges (`ranges`), or for both."""

from __future__ import annotations

import json
import re
import reprlib
import warnings
from importlib import resources
from pathlib import Path

from overlapaudit.model.errors import UsageError

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60

_KEYS = {"note", "ranges", "rules"}


def bundled_entries(file: str, key: str) -> list[object]:
    """Give what a file of this package lists under `key`."""
    bundled = resources.files("overlapaudit.classify") / "data" / file
    return _entries(bundled.read_text(encoding="utf-8"), file, key)


def user_entries(path: Path, key: str) -> list[object]:
    """Give what a user's file lists under `key`, nothing if it has only the other kind of rules.

    Raises:
        UsageError: the file cannot be read, or is not a rule file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UsageError(f"{path.name}: cannot read the rules ({reason})") from error
    return _entries(text, path.name, key)


def compile_pattern(pattern: str, where: str) -> re.Pattern[str]:
    """Compile the pattern of a rule; `where` names the rule in the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of constructs that a later Python may read otherwise
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{where} has a broken pattern: {error}") from error


def shown(word: object) -> str:
    """Show what a rule file says where it is wrong, on one line and shortened."""
    return _SHORT.repr(word)


def _entries(text: str, file: str, key: str) -> list[object]:
    try:
        document = json.loads(text, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not JSON ({error})") from error
    if not isinstance(document, dict) or not document.keys() & {"rules", "ranges"}:
        raise UsageError(
            f'{file}: expected {{"rules": [["class", "pattern"], ...], "ranges": [{{...}}, ...]}},'
            " or one of the two"
        )
    for unknown in sorted(document.keys() - _KEYS):
        raise UsageError(
            f"{file}: unknown key {shown(unknown)}; a rule file has {', '.join(sorted(_KEYS))}"
        )
    listed = document.get(key, [])
    if not isinstance(listed, list):
        raise UsageError(f'{file}: "{key}" must be a list of rules')
    return listed


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the key {shown(name)} comes twice")
        members[name] = value
    return members
