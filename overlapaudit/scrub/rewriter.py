"""What stands in the place of what is private.

A host is `host0`, `host1`, …, a user `user0`, …, with the same number everywhere. Names go

* as whole fields: EXPORT_HOST, Hostname, USER_NAME and their like;
* as the user of a home folder, whatever the name, and beside the `@` of `user@host`;
* as words of their own, in any case, between characters that are no letters and no digits, if they
  have 4 characters or more and are no common words (`common_words`): `alice` goes from `alice_gemm`
  and from `run-alice.log`, and stays in `malice`; `test`, `gpu` and `al` stay where they are words.
  A name of 2 or 3 that is not common goes where it is a folder (`/scratch/bob/`).

Text that holds a block of environment variables keeps the settings of CUDA alone, and of these
those without a path and without a private word. Secrets become `[removed]` wherever they stand. A
blob that holds anything private is filled with zeros: what its bytes mean is not known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from overlapaudit.scrub.addresses import without_addresses
from overlapaudit.scrub.environment import Setting, block_without, command_without, field_without
from overlapaudit.scrub.fields import Field, device_of
from overlapaudit.scrub.paths import homes_renamed
from overlapaudit.scrub.private import (
    SHORTEST_WORD,
    Private,
    is_address,
    is_name,
    may_stay,
)

REMOVED = "[removed]"
_PASSES = 8

Step = Callable[[str], str]


class Rewriter:
    """Rewrites texts and fields of one export. To rewrite twice is to rewrite once."""

    def __init__(self, private: Private) -> None:
        self._private = private
        self.secrets = sorted(_spellings(private.secrets), key=lambda one: (-len(one), one))
        self.words = _words(private)
        self._steps: list[Step] = [
            self._without_secrets,
            *_folders(private),
            lambda text: homes_renamed(text, private.users.of),
            *_siblings(private),
            self._without_names,
            without_addresses,
        ]
        self._name_steps = [
            *_replacing(r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])", self.words),
            *_contexts(private),
        ]
        names = {*self.words, *private.user_words, *private.host_words}
        self._lower_names = {name.lower() for name in names}

    def text(self, text: str) -> str:
        """Rewrite any text."""
        for _ in range(_PASSES):
            before, text = text, self._clean(block_without(text, self.keeps))
            if text == before:
                break
        return text

    def blob(self, raw: bytes) -> bytes:
        """Rewrite bytes of unknown meaning."""
        text = raw.decode("utf-8", "surrogateescape")
        return raw if self.text(text) == text else bytes(len(raw))

    def field(self, field: Field, value: str) -> str | None:
        """Rewrite a field; None if nothing of it stays."""
        if field is Field.HOST and is_name(value.strip()):
            return self._host(value)
        if field is Field.USER and is_name(value.strip()):
            return self._private.users.of(value.strip())
        if field is Field.DEVICE and is_name(device_of(value).host or ""):
            device = device_of(value)
            return self._host(device.host or "") + device.how
        if field is Field.SETTING:
            return field_without(value, self.keeps) or None
        if field is Field.ENVIRONMENT and "=" in value:
            return field_without(value, self.keeps)
        if field is Field.COMMAND:
            return self.text(command_without(value, self.keeps, REMOVED))
        if field is Field.MACHINE_ID:
            return ""
        return self.text(value)

    def keeps(self, setting: Setting) -> bool:
        """Tell whether an environment variable stays."""
        return (
            may_stay(setting.name)
            and not any(mark in setting.value for mark in "/\\~")
            and self._clean(setting.value) == setting.value
        )

    def _host(self, name: str) -> str:
        name = name.strip().rstrip(".")
        return self._private.hosts.of(self._private.host_words.get(name, name))

    def _clean(self, text: str) -> str:
        for step in self._steps:
            text = step(text)
        return text

    def _without_names(self, text: str) -> str:
        lower = text.lower()
        if any(name in lower for name in self._lower_names):
            for step in self._name_steps:
                text = step(text)
        return text

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            if secret in text:
                text = text.replace(secret, REMOVED)
        return text


def _spellings(secrets: Iterable[str]) -> set[str]:
    """Give secrets as they are, and as JSON writes them."""
    as_json = {json.dumps(secret)[1:-1] for secret in secrets}
    return {*secrets, *as_json, *(secret.replace("/", "\\/") for secret in as_json)}


def _words(private: Private) -> dict[str, str]:
    """Give what is replaced wherever it is a word, and by what."""
    words = dict.fromkeys(private.values, REMOVED)
    for user in private.user_words:
        if private.is_looked_for(user):
            words[user] = private.users.of(user)
    for host, name in private.host_words.items():
        if private.is_looked_for(host) or is_address(host) or "." in host:
            words[host] = private.hosts.of(name)
    return words


def _folders(private: Private) -> list[Step]:
    """Replace home folders that are not under /home."""
    folders = {home: f"/home/{private.users.of(user)}" for home, user in private.homes.items()}
    return _replacing(r"(?<![\w.-]){}(?![\w-])", folders)


def _siblings(private: Private) -> list[Step]:
    """Replace other hosts of the same domains, and of the same numbered kind."""
    steps: list[Step] = []
    if private.domains:
        domain = _one_of(private.domains, r"(?<![\w-])(?:([\w-]+)\.(?:[\w-]+\.)*)?{}(?![\w-])")

        def in_domain(match: re.Match[str]) -> str:
            return private.hosts.of(match[1]) if match[1] else "[domain]"

        steps.append(lambda text: domain.sub(in_domain, text) if "." in text else text)
    if private.numbered_hosts:
        kinds = "|".join(rf"{re.escape(p)}\d{{{n}}}" for p, n in sorted(private.numbered_hosts))
        numbered = re.compile(rf"(?<![A-Za-z0-9])(?:{kinds})(?![A-Za-z0-9])", re.IGNORECASE)
        steps.append(lambda text: numbered.sub(lambda found: private.hosts.of(found[0]), text))
    return steps


def _contexts(private: Private) -> list[Step]:
    """Replace names that are too common or too short for words, where they can only be names."""
    users = {user: private.users.of(user) for user in private.user_words}
    short = {
        user: alias
        for user, alias in users.items()
        if 1 < len(user) < SHORTEST_WORD and user.lower() not in private.common
    }
    hosts = {host: private.hosts.of(name) for host, name in private.host_words.items()}
    return [
        *_replacing(r"(?<![\w.-]){}(?=@\w)|(?<=~){}(?=/)", users),
        *_replacing(r"(?<=/){}(?=/|$)", short),
        *_replacing(r"(?<=[\w\]]@){}(?![\w-])|(?<=://){}(?=[:/])", hosts),
    ]


def _replacing(pattern: str, words: dict[str, str]) -> list[Step]:
    """Replace words by others where they stand, in any case, in the pattern's `{}`."""
    if not words:
        return []
    expression = _one_of(words, pattern)
    by_key = {word.lower(): instead for word, instead in words.items()}
    return [lambda text: expression.sub(lambda match: by_key[match.group().lower()], text)]


def _one_of(words: Iterable[str], pattern: str) -> re.Pattern[str]:
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    choice = "|".join(map(re.escape, longest_first))
    return re.compile(pattern.replace("{}", f"(?:{choice})"), re.IGNORECASE | re.ASCII)
