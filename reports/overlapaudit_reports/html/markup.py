"""Build HTML so that text is escaped unless it is known to be HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from overlapaudit_reports.escape import html_escaped, json_for_script

_VOID = {"meta", "br"}


class Html(str):
    """Text that is HTML already. Made here only; everything else is escaped."""

    __slots__ = ()


Child = Html | str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. `id` is its anchor."""

    id: str
    title: str
    body: Html


def tag(name: str, /, *children: Child | Iterable[Child], **attributes: str) -> Html:
    """Give an element. Children that are no Html are escaped, and so are attributes.

    A trailing underscore of an attribute's name is dropped (`class_`), other underscores become
    dashes (`data_id`).
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html_escaped(value)}"'
        for key, value in attributes.items()
    )
    if name in _VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: Child | Iterable[Child]) -> Html:
    """Put pieces behind each other."""
    return Html(
        "".join(
            _piece(child) if isinstance(child, str) else "".join(_piece(one) for one in child)
            for child in children
        )
    )


def lines(texts: Iterable[str]) -> Html:
    """Put texts below each other, where white space is kept."""
    return Html("\n".join(html_escaped(text) for text in texts))


def raw_element(name: str, content: str, **attributes: str) -> Html:
    """Give a <style> or <script> of our own or of plotly's text.

    Raises:
        ValueError: the content would end the element.
    """
    if f"</{name}" in content.lower() or "<!--" in content:
        raise ValueError(f"the content would end <{name}>")
    opening = str(tag(name, **attributes)).removesuffix(f"</{name}>")
    return Html(f"{opening}{content}</{name}>")


def data_element(id_: str, value: object) -> Html:
    """Give data for the page's script, as JSON.

    Raises:
        ValueError: a number in it is none.
    """
    return raw_element("script", json_for_script(value), id=id_, type="application/json")


def table(
    head: Sequence[str], rows: Sequence[Sequence[Child]], *, texts: int = 1, most: int | None = None
) -> Html:
    """Give a table.

    Args:
        head: the names of the columns.
        rows: the cells.
        texts: how many columns from the left hold text; the rest are figures.
        most: how many rows are shown; what is left out is said.
    """
    shown = rows if most is None else rows[:most]
    left = len(rows) - len(shown)

    def line(cells: Sequence[Child], kind: str) -> Html:
        return tag(
            "tr",
            (
                tag(kind, cell) if number < texts else tag(kind, cell, class_="figure")
                for number, cell in enumerate(cells)
            ),
        )

    body = tag("tbody", (line(row, "td") for row in shown))
    whole = tag("div", tag("table", tag("thead", line(head, "th")), body), class_="wide")
    if not left:
        return whole
    return joined(whole, note(f"{left:,} more rows are in the JSON of the audit."))


def note(*children: Child) -> Html:
    """Give a remark below a figure or table."""
    return tag("p", *children, class_="note")


def _piece(child: Child) -> str:
    return child if isinstance(child, Html) else html_escaped(child)
