"""The `nvtx` package as the tool, in all its versions from 0.2.10 on.

Three things of nvtx are gone around here:

* From 0.2.12 on it hands out a dummy instead of a domain where `nvtxDomainIsEnabled` says no. nsys
  2022.4, 2023.4 and 2024.2 say no while they record, and every range would vanish without a word.
* It keeps every message for ever. Texts that differ each step go unregistered (`plain_text`).
* It has no word for "nobody listens". Without a tool NVTX registers a string as NULL and stays
  without one for the life of the process, so that markers need not be written at all.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from overlapaudit_nvtx.complaints import say_once
from overlapaudit_nvtx.plain_text import PlainText, find_layout
from overlapaudit_nvtx.tool import Tool
from overlapaudit_nvtx.vocabulary import DOMAIN, LEVELS

# Events kept for reuse: layers and phases are a few hundred; steps and requests pass through.
_KEPT = 4096
# Where texts cannot go unregistered, so many different ones are registered, and no more.
_REGISTERED = 4096
_PROFILER = "NVTX_INJECTION64_PATH"  # set by profilers for the programs that they start
_COLOR = 0x76B900  # one for all: levels are told apart by their category


def open_tool() -> Tool | None:
    """Open the domain, None where nvtx is not installed, is switched off, or nobody listens."""
    if os.environ.get("NVTX_DISABLE"):
        return None
    try:
        library = import_module("nvtx._lib.lib")
    except Exception as error:  # noqa: BLE001 - a broken nvtx is as good as none
        if not isinstance(error, ModuleNotFoundError) or os.environ.get(_PROFILER):
            say_once("nvtx", f"nvtx cannot be loaded ({type(error).__name__}): no markers")
        return None
    try:
        tool = NvtxTool(library)
        return tool if tool.has_listener() else None
    except Exception as error:  # noqa: BLE001 - an nvtx that works otherwise than those known
        say_once("nvtx", f"this nvtx cannot be used ({type(error).__name__}): no markers")
        return None


class NvtxTool:
    """Events and ranges of our domain."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._domain = _open_domain(library)
        self._handle = self._domain.handle
        # In a fixed order, so that the numbers are the same in every trace.
        self._categories = {level: self._domain.get_category_id(level) for level in LEVELS}
        self._kept: dict[tuple[str, int | None, str], Any] = {}
        self._strings: dict[str, Any] = {}
        self._before: tuple[Any, ...] = (self._domain,)
        try:
            self._attributes(DOMAIN, 0, None)
        except TypeError:
            self._before = ()  # up to 0.2.13 an event does not know its domain
        self._push, self._pop = library.push_range, library.pop_range
        self._layout: PlainText | None = find_layout(self._attributes)

    def has_listener(self) -> bool:
        """Say whether NVTX has a tool behind it; yes where that cannot be told."""
        if self._layout is None:
            return True  # it cannot be told
        # Two strings: a tool may number its strings from 0.
        return any(
            self._layout.registered(self._attributes(f"{DOMAIN}.{text}", 0, None))
            for text in ("a", "b")
        )

    def event(self, level: str, head: str, payload: int | None, tail: str) -> Any:
        """Give the event of this text and payload."""
        key = head, payload, tail
        found = self._kept.get(key)
        if found is not None:
            return found
        made = self._made(level, head, payload, tail)
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[key] = made
        return made

    def push(self, event: Any) -> None:
        """Open a range on this thread."""
        self._push(event.attributes, self._handle)

    def pop(self) -> None:
        """Close the innermost range of this thread."""
        self._pop(self._handle)

    def mark(self, event: Any) -> None:
        """Write a moment."""
        self._library.mark(event.attributes, self._handle)

    def start(self, event: Any) -> Any:
        """Open a range that may end on another thread."""
        return self._library.start_range(event.attributes, self._handle)

    def end(self, started: Any) -> None:
        """Close such a range."""
        # A number and its domain, up to 0.2.11 one object of both.
        if isinstance(started, tuple):
            self._library.end_range(*started)
        else:
            self._library.end_range(started)

    def _made(self, level: str, head: str, payload: int | None, tail: str) -> _Event:
        category = self._categories[level]
        if tail and self._layout is not None:
            attributes = self._attributes(head, category, payload)
            return _Event(attributes, self._layout.write(attributes, head + tail))
        text = head + tail
        if text not in self._strings and tail and len(self._strings) >= _REGISTERED:
            say_once("texts", "too many different facts for this nvtx: markers go without them")
            text = head
        return _Event(self._attributes(text, category, payload), None)

    def _attributes(self, text: str, category: int, payload: int | None) -> Any:
        string = self._strings.get(text)
        if string is None:
            string = self._library.RegisteredString(self._handle, text)
            self._strings[text] = string
        return self._library.EventAttributes(
            *self._before, message=string, color=_COLOR, category=category, payload=payload
        )


class _Event:
    """An event, and the text that it points to."""

    __slots__ = ("attributes", "text")

    def __init__(self, attributes: Any, text: object) -> None:
        self.attributes = attributes
        self.text = text


def _open_domain(library: Any) -> Any:
    """Make the domain, whether or not nvtx believes it to be enabled."""
    kind = library.Domain
    if "__new__" not in vars(kind):
        return kind(DOMAIN)
    domain = object.__new__(kind)
    domain.handle = library.DomainHandle(DOMAIN)  # first: 0.2.14 and later need it in __init__
    domain.__init__(DOMAIN)
    return domain
