"""Environment variables: single settings, and blocks of them inside other text.

nsys writes single settings (`NAME="value"`) into rows of META_DATA_CAPTURE, and whole blocks,
their settings apart by NUL, into StringIds. Blocks by lines occur where a program printed them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_SETTING = re.compile(r"([A-Za-z_][\w.%()-]*)=(.*)", re.DOTALL)
# Text by lines is only a block where one of these is in it: other text has lines with `=` too.
_ALWAYS_THERE = frozenset(
    {"HOME", "HOSTNAME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PWD", "SHELL", "USER"}
)
_SECRET_PART = re.compile(
    r".*(TOKEN|SECRET|PASSWORD|PASSWD|PASS|PASSPHRASE|KEY|CREDENTIALS?|AUTH|COOKIE|PRIVATE"
    r"|SIGNATURE|DSN|WEBHOOK)"
)
SHORTEST_SECRET = 6
_CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1a\x7f]")  # binary data, not a value
# In a command's words: an upper-case name that begins a word, and what is assigned to it.
_ASSIGNED = re.compile(r"""(?<![\w.+-])([A-Z_][A-Z0-9_]+)=("[^"]*"|'[^']*'|[^\s;&|"']+)""")


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable and its value, without quotes around it."""

    name: str
    value: str


def says_secret(variable: str) -> bool:
    """Tell whether a variable's name says that its value is a secret."""
    return any(_SECRET_PART.fullmatch(part) for part in variable.upper().split("_"))


def setting_of(text: str) -> Setting | None:
    """Read one setting; None where the text is none."""
    match = _SETTING.fullmatch(text)
    if match is None:
        return None
    value = match[2]
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return Setting(match[1], value)


def settings_in(text: str) -> list[Setting]:
    """Give the settings of a block; none where the text is no block."""
    separator = _separator(text)
    if separator is None:
        return []
    return [found for part in text.split(separator) if (found := setting_of(part)) is not None]


def block_without(text: str, kept: Callable[[Setting], bool]) -> str:
    """Give a block with only those of its settings that are kept; other text as it is."""
    separator = _separator(text)
    return text if separator is None else _only(text, separator, kept)


def field_without(text: str, kept: Callable[[Setting], bool]) -> str:
    """Do so with a field that holds nothing but settings, however they are put apart."""
    return _only(text, "\0" if "\0" in text else "\n", kept)


def assignments_in(command: str) -> Iterator[Setting]:
    """Give the variables that a command line sets."""
    for match in _ASSIGNED.finditer(command):
        found = setting_of(match.group())
        if found is not None:
            yield found


def command_without(command: str, kept: Callable[[Setting], bool], instead: str) -> str:
    """Replace those variables that a command line sets and that are not kept."""

    def rewritten(match: re.Match[str]) -> str:
        found = setting_of(match.group())
        return match.group() if found is not None and kept(found) else instead

    return _ASSIGNED.sub(rewritten, command)


def _only(text: str, separator: str, kept: Callable[[Setting], bool]) -> str:
    parts = [
        part
        for part in text.split(separator)
        if (found := setting_of(part)) is not None and kept(found)
    ]
    end = separator if parts and text.endswith(separator) else ""
    return separator.join(parts) + end


def _separator(text: str) -> str | None:
    """Tell what puts the settings of a block apart; None where the text is no block."""
    if "=" not in text:
        return None
    if "\0" in text:
        found = [
            one
            for part in text.split("\0")
            if (one := setting_of(part)) is not None and not _CONTROL.search(one.value)
        ]
        names = [one.name for one in found if len(one.name) > 1]
        return "\0" if len(names) > 1 or any(name.isupper() for name in names) else None
    if "\n" in text:
        lines = [setting_of(line) for line in text.splitlines() if line]
        if any(line is not None and line.name in _ALWAYS_THERE for line in lines):
            return "\n"
        return None
    alone = setting_of(text)
    return "\0" if alone is not None and _is_told_by_its_name(alone) else None


def _is_told_by_its_name(setting: Setting) -> bool:
    if setting.name in _ALWAYS_THERE:
        return True
    is_short = len(setting.value) < SHORTEST_SECRET or setting.value.isdigit()
    return setting.name.isupper() and says_secret(setting.name) and not is_short
