"""Make text from a trace harmless to show. Names in a trace are anybody's."""

from __future__ import annotations


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
