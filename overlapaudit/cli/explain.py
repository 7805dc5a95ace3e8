"""`overlapaudit explain CODE`: the page of a finding code."""

from __future__ import annotations

from typing import Annotated

import typer

from overlapaudit.cli.output import STDOUT, write


def command(
    code: Annotated[str, typer.Argument(metavar="CODE", help="As in OA002.", show_default=False)],
) -> None:
    """Explain a finding code: what it means, what shows it, what to do about it."""
    from overlapaudit.rules.catalogue import page

    write(STDOUT, page(code))
