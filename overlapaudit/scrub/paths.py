"""Home folders: what in a path is a user's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_SEPARATOR = r"(?:\\?/|\\\\?)"  # of Unix, of Windows, and both as JSON writes them
_NOT_IN_NAMES = r"/\\\s\0\"'<>:;,|()\[\]{}=&?*"
_HOME = re.compile(
    rf"(?P<lead>{_SEPARATOR}(?:"
    rf"(?:home\d*|homes|Users|users){_SEPARATOR}(?:(?P<initial>[a-z])/(?=(?P=initial)|user\d))?"
    r"|u\d{0,2}/(?P<letter>[a-z])/(?=(?P=letter))"
    rf"))(?P<name>[^.{_NOT_IN_NAMES}](?:[^{_NOT_IN_NAMES}]*[^.{_NOT_IN_NAMES}])?)"
)
_ROOT = re.compile(r"(?<![\w.\-/\\\])}])(?P<lead>\\?/)root(?![\w-])")


def users_in(text: str) -> Iterator[str]:
    """Give the users whose home folders a text names."""
    if _may_have_homes(text):
        for match in _HOME.finditer(text):
            yield match["name"]
        if _ROOT.search(text):
            yield "root"


def homes_renamed(text: str, alias: Callable[[str], str]) -> str:
    """Call the user of each home folder by an alias; root's becomes one under /home."""
    if not _may_have_homes(text):
        return text
    text = _HOME.sub(lambda match: match["lead"] + alias(match["name"]), text)
    return _ROOT.sub(lambda match: f"{match['lead']}home{match['lead']}{alias('root')}", text)


def _may_have_homes(text: str) -> bool:
    return "home" in text or "sers" in text or "root" in text or "/u" in text
