"""Which words are private, and what each is called instead.

A host or user gets its number the first time it is met; a name that is a number's already (`host0`
in a copy) keeps it, so that a copy of a copy is the same. What is a name in one field is one
everywhere, `HOSTNAME` of an environment and `NAME` of a path under /home alike.

The value of a variable is looked for elsewhere too: from 6 characters on where the variable's name
says that it is a secret, from 8 on where the value has more to it than a word (a figure, a dash, an
address), is no path, and names no kernel and no API call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from overlapaudit.scrub.common_words import common_words
from overlapaudit.scrub.environment import SHORTEST_SECRET, Setting, says_secret

SHORTEST_WORD = 4
_SHORTEST_VALUE = 8
_NOT_NAMES = frozenset({"", "true", "false", "none", "unknown", "(none)", "[unknown]"})

_HOST_VARIABLE = re.compile(
    r"HOST|HOSTNAME|COMPUTERNAME|MASTER_ADDR|(.*_)?(NODE_?NAME|NODELIST|HOSTNAME|SUBMIT_HOST)"
    r"|PBS_O_HOST|POD_NAME"
)
_USER_VARIABLE = re.compile(r"USER|LOGNAME|(.*_)?USERNAME|(SUDO|JOB|SLURM_JOB)_USER|NB_USER")
_HOME_VARIABLE = re.compile(r"HOME|USERPROFILE|SUDO_HOME")
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*\.?")
_NODE_RANGE = re.compile(r"([A-Za-z][\w.-]*)\[(\d+)[\d,-]*\]")
_SYSTEM_FOLDERS = re.compile(
    r"/(?:bin|dev|etc|lib\d*|opt|proc|run|sbin|srv|sys|tmp|usr|var)(?:/|$)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]*")


@dataclass(slots=True)
class Aliases:
    """What each of several names is called instead: a kind of name, and a number."""

    kind: str
    numbers: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def reserve(self, name: str) -> None:
        """Keep a name that is an alias already from being given to another."""
        if self.is_alias(name):
            self.taken.add(name)

    def is_alias(self, name: str) -> bool:
        """Tell an alias from a name."""
        return re.fullmatch(rf"{self.kind}\d+", name) is not None

    def of(self, name: str) -> str:
        """Give the alias of a name, a new one if it has none."""
        key = name.lower()
        if self.is_alias(name):
            return name
        if key not in self.numbers:
            number = len(self.numbers)
            while f"{self.kind}{number}" in self.taken:
                number += 1
            self.numbers[key] = f"{self.kind}{number}"
            self.taken.add(self.numbers[key])
        return self.numbers[key]


@dataclass(slots=True)
class Private:
    """The private words of one export."""

    hosts: Aliases = field(default_factory=lambda: Aliases("host"))
    users: Aliases = field(default_factory=lambda: Aliases("user"))
    host_words: dict[str, str] = field(default_factory=dict)  # as written -> the host's name
    user_words: dict[str, None] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)  # folder -> user
    domains: dict[str, None] = field(default_factory=dict)
    secrets: dict[str, None] = field(default_factory=dict)
    values: dict[str, None] = field(default_factory=dict)
    numbered_hosts: dict[tuple[str, int], None] = field(default_factory=dict)  # prefix, digits
    common: set[str] = field(default_factory=lambda: set(common_words()))

    def add_host(self, name: str) -> None:
        """Note a host, by its short or its full name."""
        name = name.strip().rstrip(".")
        if not is_name(name) or self.hosts.is_alias(name):
            return self.hosts.reserve(name)
        self.host_words[name] = name
        if _HOST_NAME.fullmatch(name) and not is_address(name):
            short, _, domain = name.partition(".")
            self.host_words[name] = self.host_words[short] = short
            if "." in domain:
                self.domains[domain] = None
        self.hosts.of(self.host_words[name])
        return None

    def add_user(self, name: str) -> None:
        """Note a user."""
        name = name.strip()
        if not is_name(name) or self.users.is_alias(name):
            return self.users.reserve(name)
        self.user_words[name] = None
        self.users.of(name)
        return None

    def add_setting(self, setting: Setting) -> None:
        """Note what an environment variable gives away."""
        name, value = setting.name.upper(), setting.value
        if _HOST_VARIABLE.fullmatch(name):
            self._add_hosts_in(value)
        elif _USER_VARIABLE.fullmatch(name):
            self.add_user(value)
        elif _HOME_VARIABLE.fullmatch(name):
            self._add_home(value)
        elif not may_stay(name) and self._is_worth_looking_for(value, secret=says_secret(name)):
            (self.secrets if says_secret(name) else self.values)[value] = None

    def leave(self, names: Iterable[str]) -> None:
        """Take values of variables that name kernels, API calls or GPUs for what they are."""
        for text in names:
            for value in [value for value in self.values if value.lower() in text.lower()]:
                del self.values[value]

    def leave_numbers_of(self, gpus: Iterable[str]) -> None:
        """Take the words for a GPU's model for common ones, though a host may be called `a100`."""
        for name in gpus:
            self.common.update(re.findall(r"[a-z]*\d[a-z\d]*", name.lower()))

    def is_looked_for(self, word: str) -> bool:
        """Tell whether a name is replaced wherever it stands as a word of its own."""
        return (
            len(word) >= SHORTEST_WORD
            and word.lower() not in self.common
            and any(character.isalpha() for character in word)
        )

    def _add_hosts_in(self, value: str) -> None:
        """Note the hosts that a variable names, those of a batch system's `node[01-03]` too."""
        for prefix, first in _NODE_RANGE.findall(value):
            self.numbered_hosts[prefix, len(first)] = None
        for word in re.split(r"[\s,;]+", _NODE_RANGE.sub("", value)):
            host = word.partition(":")[0]
            if _HOST_NAME.fullmatch(host) and host.lower() != "localhost" and not is_address(host):
                self.add_host(host)

    def _add_home(self, folder: str) -> None:
        folder = folder.rstrip("/")
        user = folder.rpartition("/")[2]
        if folder.count("/") < 2 or _SYSTEM_FOLDERS.match(folder):
            return
        self.homes[folder] = user
        self.add_user(user)

    def _is_worth_looking_for(self, value: str, *, secret: bool) -> bool:
        if value.lower() in self.common or not is_name(value):
            return False
        if secret:
            return len(value) >= SHORTEST_SECRET
        return (
            len(value) >= _SHORTEST_VALUE
            and not _IDENTIFIER.fullmatch(value)
            and any(character.isalpha() for character in value)
            and "/" not in value
            and "\\" not in value
        )


def is_name(text: str) -> bool:
    """Tell whether a field holds a name at all."""
    return text.lower() not in _NOT_NAMES and not text.isdigit()


def is_address(text: str) -> bool:
    """Tell whether a host goes by its number."""
    return re.fullmatch(r"[\d.:]+", text) is not None


def may_stay(variable: str) -> bool:
    """Tell whether a variable is a setting of CUDA's, which an audit may want to know."""
    return variable.startswith("CUDA_") and not says_secret(variable)
