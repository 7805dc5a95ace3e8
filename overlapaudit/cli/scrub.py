"""`overlapaudit scrub`: a copy of an export that can be shown to others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overlapaudit.cli.arguments import Force
from overlapaudit.cli.inputs import progress_line
from overlapaudit.cli.output import STDOUT, check_target, whole_file
from overlapaudit.model.errors import UsageError


def command(
    trace: Annotated[
        Path,
        typer.Argument(metavar="TRACE", help="An nsys SQLite export.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The file to write.", show_default=False),
    ],
    force: Force = False,
) -> None:
    """Copy an export without environment variables, host and user names, captured output."""
    from overlapaudit.reader.nsys_report import SUFFIXES, UNFINISHED_SUFFIX
    from overlapaudit.reader.sqlite_guard import check_not_being_written
    from overlapaudit.scrub import scrub

    if out == STDOUT:
        raise UsageError("-: a database cannot go to stdout; name a file")
    if trace.is_dir() or trace.suffix in (*SUFFIXES, UNFINISHED_SUFFIX):
        raise UsageError(
            f"{trace.name}: scrub takes an SQLite export; "
            "make one with 'nsys export --type sqlite REPORT.nsys-rep'"
        )
    check_target(out, [trace], force=force)
    check_not_being_written(out)
    with whole_file(out) as temporary, progress_line() as show:
        scrub(trace, temporary, progress=show)
