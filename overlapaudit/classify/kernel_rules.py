"""Rules that give a kernel its class by its name. They are data: users can put theirs in front."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from overlapaudit.classify.rule_files import bundled_entries, compile_pattern, user_entries
from overlapaudit.model.errors import UsageError

_CLASS_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
# Patterns may take a time that grows with the square of a name's length. Templates run to 10 kB,
# what a rule looks for stands long before that.
_LONGEST_NAME = 4_096
_BUNDLED = "kernel_classes.json"
_KEY = "rules"


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
        bare = name[:_LONGEST_NAME].removeprefix("void ")
        for rule in self.rules:
            if rule.pattern.search(bare):
                return rule.kernel_class
        return None

    @classmethod
    def load(cls, user_file: Path | None = None) -> KernelRules:
        """Load the bundled rules, behind those of the user's own file if there is one.

        The file is JSON: {"rules": [["class", "regular expression"], ...]}. It may hold rules for
        ranges as well, or only those.

        Raises:
            UsageError: the file cannot be read, or a rule in it is not one.
        """
        rules = _parse(bundled_entries(_BUNDLED, _KEY), _BUNDLED)
        if user_file is not None:
            rules = _parse(user_entries(user_file, _KEY), user_file.name) + rules
        return cls(rules)


def is_communication(kernel_class: str) -> bool:
    """Tell whether kernels of this class move data between GPUs."""
    return kernel_class == "comm" or kernel_class.startswith("comm.")


def _parse(entries: list[object], file: str) -> tuple[KernelRule, ...]:
    return tuple(_rule(entry, f"{file}: rule {n}") for n, entry in enumerate(entries, start=1))


def _rule(entry: object, where: str) -> KernelRule:
    match entry:
        case [str(kernel_class), str(pattern)] if _CLASS_NAME.fullmatch(kernel_class):
            return KernelRule(kernel_class, compile_pattern(pattern, f"{where} ({kernel_class})"))
    raise UsageError(f"{where} must be a class (a-z, 0-9, _ and dots) and a regular expression")
