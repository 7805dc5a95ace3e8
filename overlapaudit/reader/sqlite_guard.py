"""Make sure that a file is a whole SQLite database that nobody is writing, and keep it so.

The reader never writes: not to the file, not beside it. A read lock (SQLite's own, advisory) is
held while the file is read, so that a writer that starts meanwhile has to wait.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from overlapaudit.model.errors import InputError

MAGIC = b"SQLite format 3\x00"

# What sqlite3 raises on a damaged file: names and messages of its own it decodes strictly.
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)


def connect(path: Path, *, immutable: bool) -> sqlite3.Connection:
    """Open a database for reading only."""
    uri = f"file:{quote(str(path.absolute()), safe='/')}?mode=ro"
    connection = sqlite3.connect(
        uri + "&immutable=1" if immutable else uri,
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = _text
    return connection


@contextmanager
def texts_as_bytes(connection: sqlite3.Connection) -> Iterator[None]:
    """Give texts undecoded meanwhile: columns are decoded faster as a whole."""
    connection.text_factory = bytes
    try:
        yield
    finally:
        connection.text_factory = _text


def check_whole(path: Path) -> None:
    """Refuse a file that is not a database or that is cut short.

    Raises:
        InputError: with what is wrong.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(100)
    if size == 0:
        raise InputError(f"{path.name}: the file is empty; export the report again")
    if header[:16] != MAGIC:
        raise InputError(f"{path.name}: not an SQLite database; give an nsys export")
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    # The page count in the header holds only where its version number is the change counter's.
    counted = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
    if len(header) < 100 or size < max(counted, 1) * page_size:
        raise InputError(
            f"{path.name}: truncated, {size} of {max(counted * page_size, 100)} bytes are there; "
            "copy or export it again"
        )


def check_not_being_written(path: Path) -> None:
    """Refuse a database with changes that are not in the file itself yet.

    Raises:
        InputError: a journal or write-ahead log lies beside the file.
    """
    for suffix, what in (("-journal", "rollback journal"), ("-wal", "write-ahead log")):
        beside = path.with_name(path.name + suffix)
        try:
            unfinished = beside.stat().st_size > 0
        except OSError:
            continue
        if unfinished:
            raise InputError(
                f"{path.name}: a {what} lies beside it, so it is being written or was left half "
                "written; wait for the writer or export it again"
            )


def read_lock(path: Path) -> sqlite3.Connection | None:
    """Take a read lock on the file; None where the file cannot be locked (WAL mode).

    Raises:
        InputError: a writer holds the file, or the database is damaged.
    """
    with path.open("rb") as file:
        header = file.read(20)
    if 2 in header[18:20]:
        # In WAL mode a lock would create files beside the input. With no log there (checked
        # above) the file is complete.
        return None
    connection = connect(path, immutable=False)
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except UNREADABLE as error:
        connection.close()
        if "locked" in str(error) or "busy" in str(error):
            raise InputError(
                f"{path.name}: locked, another program is writing it; wait until it has finished"
            ) from error
        raise damaged(path, error) from error
    return connection


def damaged(path: Path, error: Exception) -> InputError:
    """Name the file that SQLite could not read."""
    return InputError(f"{path.name}: cannot be read as an SQLite database ({error})")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
