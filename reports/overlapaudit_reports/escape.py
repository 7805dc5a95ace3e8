"""Make text from a trace harmless to show. Names in a trace are anybody's."""

from __future__ import annotations

import html
import json

# Inside <script> a page ends at these, whatever string they stand in.
_ENDS_A_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def printable(text: str) -> str:
    r"""Replace what a terminal would obey or hide (controls, bidi marks) by escapes like \x1b."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def shortened(text: str, width: int) -> str:
    """Cut the middle out of a text that is longer than `width`."""
    if len(text) <= width:
        return text
    if width < 5:
        return text[:width]
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def html_escaped(text: str) -> str:
    """Give a text as HTML shows it, in an element or a quoted attribute; controls made visible."""
    return html.escape(printable(text))


def json_for_script(value: object) -> str:
    """Give a value as JSON that can stand in a <script> element: ASCII, without <, > and &.

    Raises:
        ValueError: a number in it is none.
    """
    text = json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.translate(_ENDS_A_SCRIPT)
