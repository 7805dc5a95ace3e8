"""Numbers for request ids: an integer is its own, any other id gets a running one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from overlapaudit_nvtx import wording

# Ids that keep their number; one that comes back after so many others gets a new number, and is
# still told by its fact `id`.
_REMEMBERED: Final = 65_536

_NUMBERS: dict[str, int] = {}
_NEXT: Iterator[int] = itertools.count(1)


def key_of(given: object) -> int | str:
    """Give a request's id: an integer of 64 bits as it is, else its text."""
    number = wording.number(given)
    return wording.value(given) if number is None else number


def number_of(key: int | str) -> int:
    """Give the payload of a request.

    No lock: dictionaries do each of these steps whole, and a lock would be held for ever in a
    child that was forked in the wrong moment.
    """
    if isinstance(key, int):
        return key
    found = _NUMBERS.get(key)
    if found is None:
        found = _NUMBERS.setdefault(key, next(_NEXT))
        if len(_NUMBERS) > _REMEMBERED:
            for oldest in list(_NUMBERS)[: _REMEMBERED // 2]:
                _NUMBERS.pop(oldest, None)
    return found


def forget(key: int | str) -> None:
    """Let go of an id whose request is over."""
    if isinstance(key, str):
        _NUMBERS.pop(key, None)
