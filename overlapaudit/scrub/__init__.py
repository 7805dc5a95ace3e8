"""Copy an nsys SQLite export without what says whose it is.

Out go environment variables, host and user names, home paths, addresses and captured output. What
an audit reads stays. `private` says which words are private, `rewriter` what stands in their
place, `contents` does it to a database, and `check` makes sure of it.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from overlapaudit.model.errors import InputError, UsageError
from overlapaudit.model.progress import Progress, silent
from overlapaudit.reader import sqlite_guard
from overlapaudit.reader.schema import looks_like_an_export
from overlapaudit.scrub.captured import empty_captured
from overlapaudit.scrub.check import check_nothing_left
from overlapaudit.scrub.collect import collect
from overlapaudit.scrub.contents import rewrite
from overlapaudit.scrub.database import Database
from overlapaudit.scrub.rewriter import Rewriter

__all__ = ["scrub"]


def scrub(source: Path, target: Path, *, progress: Progress = silent) -> None:
    """Write the copy of an export; the export itself is only read.

    Args:
        source: the SQLite export.
        target: where to; must not exist. Its folder also holds a full copy meanwhile, so it should
            be one that only this program can read.
        progress: called with (table, done, of how many) while texts are rewritten.

    Raises:
        InputError: the export cannot be used, or cannot be scrubbed of everything.
        UsageError: the copy cannot be written.
    """
    working = target.with_name(target.name + ".unscrubbed")
    try:
        _copy(source, working)
        try:
            rewriter = _rewrite(source, working, target, progress)
        finally:
            working.unlink(missing_ok=True)
        check_nothing_left(target, rewriter, source.name)
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise UsageError(f"{target}: cannot be written ({error})") from error
        raise sqlite_guard.damaged(source, error) from error
    except sqlite_guard.UNREADABLE as error:
        raise sqlite_guard.damaged(source, error) from error


def _copy(source: Path, working: Path) -> None:
    """Copy the file as it is, once it is known to be whole, while nobody writes it."""
    try:
        sqlite_guard.check_whole(source)
        sqlite_guard.check_not_being_written(source)
        with ExitStack() as stack:
            lock = sqlite_guard.read_lock(source)
            if lock is not None:
                stack.enter_context(closing(lock))
            opened = stack.enter_context(source.open("rb"))
            with working.open("xb") as copy:
                shutil.copyfileobj(opened, copy, 1 << 20)
    except FileNotFoundError as error:
        raise InputError(f"{source.name}: no such file") from error
    except OSError as error:
        raise InputError(f"{source.name}: cannot be copied ({error.strerror})") from error


def _rewrite(source: Path, working: Path, target: Path, progress: Progress) -> Rewriter:
    with closing(Database.open(working)) as database:
        if not looks_like_an_export(database.columns_of):
            raise InputError(f"{source.name}: holds no table of an nsys export")
        database.drop_by_products()
        empty_captured(database)
        rewriter = Rewriter(collect(database))
        rewrite(database, rewriter, progress)
        # A file built anew holds no page and no rest of a page of the old one.
        database.write_to(target)
    return rewriter
