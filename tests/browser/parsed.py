"""A page as its elements."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

_VOID = {"meta", "br", "link", "img", "input", "hr", "base"}


@dataclass
class Element:
    """An element, with all text inside it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    parents: list[Element] = field(default_factory=list)

    @property
    def classes(self) -> set[str]:
        """The classes."""
        return set(self.attributes.get("class", "").split())


class Page(HTMLParser):
    """The elements of a page, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []

    @classmethod
    def of(cls, text: str) -> Page:
        """Parse a page."""
        page = cls()
        page.feed(text)
        page.close()
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs}, "", list(self._open))
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        for index in reversed(range(len(self._open))):
            if self._open[index].tag == tag:
                del self._open[index:]
                return

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def tagged(self, tag: str) -> list[Element]:
        """Give the elements with a tag."""
        return [element for element in self.elements if element.tag == tag]

    def by_id(self, id_: str) -> Element:
        """Give the element with an id."""
        (found,) = [one for one in self.elements if one.attributes.get("id") == id_]
        return found

    def data(self, id_: str) -> Any:
        """Give data for a script."""
        return json.loads(self.by_id(id_).text)
