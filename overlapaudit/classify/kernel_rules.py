"""Rules that give a kernel its class by its name. They are data: users can put theirs in front."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from overlapaudit.model.errors import UsageError

_CLASS_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_BUNDLED = "kernel_classes.json"


@dataclass(frozen=True, slots=True)
class KernelRule:
    """A class and the pattern (searched anywhere in the name) that gives it."""

    kernel_class: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class KernelRules:
    """Ordered rules; the first that matches decides."""

    rules: tuple[KernelRule, ...]

    def class_of(self, name: str) -> str | None:
        """Give the class of a kernel by its demangled name, None if no rule knows it."""
        bare = name.removeprefix("void ")
        for rule in self.rules:
            if rule.pattern.search(bare):
                return rule.kernel_class
        return None

    @classmethod
    def load(cls, user_file: Path | None = None) -> KernelRules:
        """Load the bundled rules, behind those of the user's own file if there is one.

        The file is JSON: {"rules": [["class", "regular expression"], ...]}.

        Raises:
            UsageError: the file cannot be read, or a rule in it is not one.
        """
        bundled = resources.files("overlapaudit.classify") / "data" / _BUNDLED
        rules = _parse(bundled.read_text(encoding="utf-8"), _BUNDLED)
        if user_file is not None:
            try:
                text = user_file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "not UTF-8 text"
                raise UsageError(f"{user_file.name}: cannot read the rules ({reason})") from error
            rules = _parse(text, user_file.name) + rules
        return cls(rules)


def is_communication(kernel_class: str) -> bool:
    """Tell whether kernels of this class move data between GPUs."""
    return kernel_class == "comm" or kernel_class.startswith("comm.")


def _parse(text: str, file: str) -> tuple[KernelRule, ...]:
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{file}: not JSON ({error})") from error
    listed = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise UsageError(f'{file}: expected {{"rules": [["class", "pattern"], ...]}}')
    return tuple(_rule(entry, number, file) for number, entry in enumerate(listed, start=1))


def _rule(entry: object, number: int, file: str) -> KernelRule:
    match entry:
        case [str(kernel_class), str(pattern)] if _CLASS_NAME.fullmatch(kernel_class):
            try:
                return KernelRule(kernel_class, re.compile(pattern))
            except (re.error, OverflowError, RecursionError) as error:
                raise UsageError(
                    f"{file}: rule {number} ({kernel_class}) has a broken pattern: {error}"
                ) from error
    raise UsageError(
        f"{file}: rule {number} must be a class (a-z, 0-9, _ and dots) and a regular expression"
    )
