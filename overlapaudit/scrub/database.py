"""The text of an SQLite database: where it is, what it says, and how to change it.

Text is handled as SQLite stores it, whether it is valid or not: UTF-8 and UTF-16 that cannot be
decoded go through unchanged. Numbers never come to Python.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from overlapaudit.reader.schema import physical_name, present_columns
from overlapaudit.scrub.fields import NAMED_VALUES

_ERRORS = {"utf-8": "surrogateescape", "utf-16-le": "surrogatepass", "utf-16-be": "surrogatepass"}


@dataclass(frozen=True, slots=True)
class Value:
    """One distinct value of a column, in the bytes of the file; `blob`: not stored as text."""

    raw: bytes
    blob: bool


@dataclass(frozen=True, slots=True)
class Named:
    """One row of a table of named values."""

    table: str
    rowid: int
    name: str
    value: str


class Database:
    """An open database of which this program is the only user."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        (name,) = connection.execute("PRAGMA encoding").fetchone()
        self.encoding = {"UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}.get(name, "utf-8")

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open a file that is whole."""
        connection = sqlite3.connect(_uri(path), uri=True, isolation_level=None)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            # The file is a working copy: what comes of a crash does not matter.
            for setting in (
                "trusted_schema = OFF",
                "ignore_check_constraints = ON",
                "journal_mode = DELETE",
                "journal_mode = OFF",
                "synchronous = OFF",
            ):
                connection.execute(f"PRAGMA {setting}")
            return cls(connection)
        except sqlite3.Error:
            connection.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @cached_property
    def columns_of(self) -> dict[str, list[str]]:
        """Give the columns of each table that hold values of their own."""
        names = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY rowid"
        ).fetchall()
        return {
            name: [
                row[1]
                for row in self._connection.execute(f"PRAGMA table_xinfo({quoted(name)})")
                if row[6] == 0  # hidden: generated from other columns
            ]
            for (name,) in names
            if not name.startswith("sqlite_")
        }

    def definitions(self) -> list[str]:
        """Give the statements that made tables, views and indexes."""
        rows = self._connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        return [row[0] for row in rows]

    def drop_by_products(self) -> None:
        """Drop triggers, which would run, and statistics, which hold samples of text."""
        for kind, name in self._connection.execute(
            "SELECT type, name FROM sqlite_master WHERE type = 'trigger'"
            " OR (type = 'table' AND name LIKE 'sqlite\\_stat%' ESCAPE '\\')"
        ).fetchall():
            self.execute(f"DROP {kind} {quoted(name)}")

    @cached_property
    def text_columns(self) -> list[tuple[str, str]]:
        """Give the columns in which any value is text or blob, whatever they are declared as."""
        found: list[tuple[str, str]] = []
        for table, columns in self.columns_of.items():
            # Text and blobs sort after all numbers.
            tests = [f"{quoted(column)} >= ''" for column in columns]
            among = f"FROM {quoted(table)}"
            any_row = f"SELECT 1 {among} WHERE {' OR '.join(tests) or 'FALSE'} LIMIT 1"
            if self._connection.execute(any_row).fetchone() is None:
                continue
            each = f"SELECT {', '.join(f'max({test})' for test in tests)} {among}"
            row = self._connection.execute(each).fetchone()
            found += [(table, column) for column, text in zip(columns, row, strict=True) if text]
        return found

    def values(self, table: str, column: str, where: str = "TRUE") -> Iterator[Value]:
        """Give the distinct texts and blobs of a column, of the rows where a condition holds."""
        cursor = self._connection.execute(
            f"SELECT CAST(v AS BLOB), typeof(v) = 'blob' FROM (SELECT DISTINCT {quoted(column)}"
            f" COLLATE BINARY AS v FROM {quoted(table)} WHERE {quoted(column)} >= '' AND {where})"
        )
        for raw, blob in cursor:
            yield Value(raw or b"", bool(blob))

    def texts(self, table: str, column: str, where: str = "TRUE") -> Iterator[str]:
        """Give them as text."""
        for value in self.values(table, column, where):
            yield self.decoded(value)

    def named_values(self) -> Iterator[Named]:
        """Give each row of the tables of named values."""
        for table in NAMED_VALUES:
            actual = physical_name(table, self.columns_of)
            if actual is None:
                continue
            spelled = present_columns(table, self.columns_of[actual])
            if len(spelled) < len(table.columns):
                continue
            name, value = quoted(spelled["name"]), quoted(spelled["value"])
            for rowid, key, raw in self._connection.execute(
                f"SELECT rowid, CAST({name} AS BLOB), CAST({value} AS BLOB) FROM {quoted(actual)}"
                f" WHERE {name} >= '' AND {value} >= '' ORDER BY rowid"
            ).fetchall():
                yield Named(actual, rowid, self._text(key or b""), self._text(raw or b""))

    def set_value(self, row: Named, value: str | None) -> None:
        """Give a named value another value; None deletes it."""
        if value is None:
            self.execute(f"DELETE FROM {quoted(row.table)} WHERE rowid = ?", (row.rowid,))
        else:
            self.execute(
                f"UPDATE {quoted(row.table)} SET value = {self._text_place} WHERE rowid = ?",
                (self._bound(self.encoded(value)), row.rowid),
            )

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> None:
        """Run a statement."""
        self._connection.execute(statement, parameters)

    def replace(self, table: str, column: str, changes: dict[Value, Value]) -> None:
        """Put new values in the place of old ones, in one pass over the table for each kind."""
        name = quoted(column)
        self.execute("CREATE TEMP TABLE change(old BLOB PRIMARY KEY, new) WITHOUT ROWID")
        for kind, place in (("text", self._text_place), ("blob", "?")):
            chosen = [each for each in changes.items() if each[0].blob == (kind == "blob")]
            if not chosen:
                continue
            self._connection.executemany(
                f"INSERT INTO change VALUES (?, {place})",
                [(old.raw, self._bound(new)) for old, new in chosen],
            )
            self.execute(
                f"UPDATE OR REPLACE {quoted(table)} SET {name} ="
                f" (SELECT new FROM change WHERE old = CAST({name} AS BLOB))"
                f" WHERE typeof({name}) = '{kind}'"
                f" AND CAST({name} AS BLOB) IN (SELECT old FROM change)"
            )
            self.execute("DELETE FROM change")
        self.execute("DROP TABLE change")

    def write_to(self, target: Path) -> None:
        """Write all that is in the database, and nothing else, to a new file."""
        self._connection.execute("VACUUM INTO ?", (_uri(target),))

    def decoded(self, value: Value) -> str:
        """Give a value as text; what a blob holds is taken for UTF-8."""
        if value.blob:
            return value.raw.decode("utf-8", "surrogateescape")
        return self._text(value.raw)

    def encoded(self, text: str) -> Value:
        """Give text as the database stores it."""
        return Value(text.encode(self.encoding, _ERRORS[self.encoding]), blob=False)

    @property
    def _text_place(self) -> str:
        """Give where text goes: the cast makes text of any bytes, but only in UTF-8."""
        return "CAST(? AS TEXT)" if self.encoding == "utf-8" else "?"

    def _bound(self, value: Value) -> bytes | str:
        if value.blob or self.encoding == "utf-8":
            return value.raw
        return value.raw.decode(self.encoding, "replace")

    def _text(self, raw: bytes) -> str:
        if self.encoding != "utf-8":
            raw = raw[: len(raw) // 2 * 2]
        return raw.decode(self.encoding, _ERRORS[self.encoding])


def quoted(name: str) -> str:
    """Write a name so that it stands for itself in a statement."""
    return '"' + name.replace('"', '""') + '"'


def _uri(path: Path) -> str:
    return "file:" + quote(str(path.absolute()), safe="/")
