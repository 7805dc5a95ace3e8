"""Addresses of people and machines in text: e-mail, IP, MAC, and the ids made of MACs.

Versions look like addresses too (`8.9.0.131`), so a bare IPv4 address counts only from 10 on and
not from 11 to 13 (versions of CUDA's libraries), not as a folder's name, and not behind a dash or a
dot.
"""

from __future__ import annotations

import ipaddress
import re

ADDRESS = "[address]"
EMAIL = "[email]"

_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]+@(?:[A-Za-z0-9-]+\.)+"
    r"(?:com|org|net|edu|gov|mil|info|local|lan|internal|corp|cloud|app|dev|[a-z]{2})"
    r"(?![\w-]|\.\w)",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?<=://)[^\s/@\[\]]+(?=@)")
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
_MAC = re.compile(
    r"(?<![\w:-])[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}(?:\1[0-9A-Fa-f]{2}){0,2}"
    r"(?![\w:-])|(?<![\w:])[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}(?![\w:])"
)
_GUID_IN_JSON = re.compile(r'("[a-z_]*guid"\s*:\s*)(?!0[,}\s])"?[\w:.-]+"?', re.IGNORECASE)
# In every address, and quick to look for because of the mark that they begin with.
_DOTTED = re.compile(r"\.\d{1,3}\.\d")
_COLONS_OR_DASHES = re.compile(r":[0-9A-Fa-f]{1,4}:|-[0-9A-Fa-f]{2}-")
_OF_THIS_MACHINE_OR_NONE = (0, 127, 255)
_OF_LIBRARIES = range(1, 14)


def without_addresses(text: str) -> str:
    """Put placeholders for addresses."""
    if "@" in text:
        text = _LOGIN.sub("[removed]", text)
        text = _EMAIL.sub(EMAIL, text)
    if _DOTTED.search(text):
        text = _IPV4.sub(_ipv4, text)
    if _COLONS_OR_DASHES.search(text):
        text = _IPV6.sub(_ipv6, text)
        text = _MAC.sub(ADDRESS, text)
    if "guid" in text or "GUID" in text or "Guid" in text:
        text = _GUID_IN_JSON.sub(r"\g<1>0", text)
    return text


def _ipv4(match: re.Match[str]) -> str:
    numbers = [int(part) for part in match.group().split(".")]
    before = match.string[max(match.start() - 2, 0) : match.start()]
    is_version = before.endswith("/") and before != "//"
    if max(numbers) > 255 or numbers[0] in _OF_THIS_MACHINE_OR_NONE or is_version:
        return match.group()
    after = match.string[match.end() : match.end() + 2]
    is_pointed_at = before == "//" or before.endswith("@") or re.fullmatch(r":\d", after)
    if numbers[0] in _OF_LIBRARIES and numbers[0] != 10 and not is_pointed_at:
        return match.group()
    return ADDRESS


def _ipv6(match: re.Match[str]) -> str:
    groups = [group for group in match.group().split(":") if group]
    if len(groups) < 3:
        return match.group()
    try:
        ipaddress.IPv6Address(match.group())
    except ValueError:
        return match.group()
    return ADDRESS
