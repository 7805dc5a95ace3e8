"""Messages that are not registered, which nvtx has no way to send.

NVTX keeps registered strings for the life of the process, and so does the tool. A message whose
facts differ each step must not be registered. NVTX' own C structure of an event can say that its
message is plain text; nvtx' object around it cannot. The structure is public and fixed
(nvtxEventAttributes_v2, 48 bytes); where it lies in the object is found by trial and then proven,
and where it cannot be proven nothing is written.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

_SIZE = 48
_ASCII, _REGISTERED, _INT64 = 1, 3, 2
_TRIED = 0x0A5B1E55  # a number that memory does not hold by chance


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_int64),
        ("message_type", ctypes.c_int32),
        ("message", ctypes.c_void_p),
    )


class _Text(ctypes.Structure):
    """The same structure, of which the message is written as text."""

    _fields_ = (
        ("before", ctypes.c_char * _Attributes.message_type.offset),
        ("message_type", ctypes.c_int32),
        ("message", ctypes.c_char_p),
    )


class PlainText:
    """Where the structure lies in an `EventAttributes` of this nvtx."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def registered(self, attributes: Any) -> int:
        """Give the tool's handle of the registered message, 0 if there is no tool."""
        return int(self._of(attributes).message or 0)

    def write(self, attributes: Any, text: str) -> object:
        """Make `text` the message; what this gives must live as long as the attributes."""
        written = _Text.from_address(id(attributes) + self._offset)
        written.message = text.encode("utf-8", "replace")
        written.message_type = _ASCII  # tools take it as UTF-8, as they do registered strings
        return written

    def _of(self, attributes: Any) -> _Attributes:
        return _Attributes.from_address(id(attributes) + self._offset)


def find_layout(make: Callable[[str, int, int], Any]) -> PlainText | None:
    """Find the structure in what `make` (text, category, payload) gives, None if it is not clear.

    Proof: at one place alone, and at the same place in two objects, stand the size of the
    structure, its version, the kinds of its fields, and the numbers that each was made with.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(_Attributes) != _SIZE:
        return None
    places = [_places(make, category, -category * _TRIED) for category in (_TRIED, 3)]
    if len(places[0]) != 1 or places[0] != places[1]:
        return None
    return PlainText(places[0][0])


def _places(make: Callable[[str, int, int], Any], category: int, payload: int) -> list[int]:
    attributes = make("plain_text", category, payload)
    # An object's own fields lie between the header and the end of what its type says.
    size = int(type(attributes).__basicsize__)
    ends = range(object.__basicsize__, size - _SIZE + 1, ctypes.alignment(_Attributes))
    found: list[int] = []
    for offset in ends:
        at = _Attributes.from_address(id(attributes) + offset)
        if (
            at.size == _SIZE
            and at.version in (2, 3)
            and at.category == category
            and at.color_type == 1
            and at.payload_type == _INT64
            and at.payload == payload
            and at.message_type == _REGISTERED
        ):
            found.append(offset)
    return found
