"""Writes a trace as one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.tracebuilder.content import assemble
from tests.tracebuilder.fill import Filled, fill
from tests.tracebuilder.identity import Value
from tests.tracebuilder.layout import Column
from tests.tracebuilder.versions import schema_named

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tests.tracebuilder.content import Content

_SIGNED_END: Final = 1 << 63


def make_trace(
    path: str | PathLike[str],
    *,
    schema: str = "2025.5",
    lazy: bool = True,
    omit_tables: Collection[str] = (),
    omit_columns: Collection[tuple[str, str]] = (),
    extra_sql: str | Sequence[str] = (),
    page_size: int | None = None,
    **content: Unpack[Content],
) -> Path:
    """Write a SQLite export; the same arguments give the same bytes.

    Args:
        path: Where to; a file that is there is replaced.
        schema: The release that wrote it, one of SCHEMAS.
        lazy: Leave out tables without rows, as nsys does by default.
        omit_tables: Names of tables to leave out, whatever they hold.
        omit_columns: Pairs of a table and its column to leave out.
        extra_sql: Statements to run at the end.
        page_size: SQLite's own of 4096 bytes if None.
        **content: What the trace holds, see Content.

    Raises:
        ValueError: there is no such schema, table or column, or the content contradicts itself.
    """
    version = schema_named(schema)
    tables = fill(
        version,
        assemble(version, content, lazy=lazy),
        lazy=lazy,
        omit_tables=omit_tables,
        omit_columns=omit_columns,
    )
    file = Path(path)
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        if page_size is not None:
            database.execute(f"PRAGMA page_size = {page_size}")
        database.execute("PRAGMA journal_mode = MEMORY")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("BEGIN")
        for table in tables:
            _write(database, table)
        database.execute("COMMIT")
        for statements in [extra_sql] if isinstance(extra_sql, str) else extra_sql:
            database.executescript(statements)
    return file


def _write(database: sqlite3.Connection, table: Filled) -> None:
    database.execute(_create(table))
    if not table.values or not table.values[0]:
        return
    places: list[str] = []
    bound: list[list[Value]] = []
    for column, values in zip(table.columns, table.values, strict=True):
        constant = _constant(values)
        places.append(constant or _place(column))
        if constant is None:
            bound.append(_stored(column, values))
    if not bound:
        bound, places[0] = [_stored(table.columns[0], table.values[0])], "?"
    rows: Iterable[tuple[Value, ...]] = zip(*bound, strict=True)
    database.executemany(f'INSERT INTO "{table.name}" VALUES ({", ".join(places)})', rows)


def _place(column: Column) -> str:
    """Give where a value goes; the cast makes text of bytes, whether or not they are UTF-8."""
    return "CAST(? AS TEXT)" if column.type == "text" else "?"


def _constant(values: list[Value]) -> str | None:
    """Give what to write instead of a value that all rows share: much is the same throughout."""
    first = values[0]
    if first is not None and (type(first) is not int or abs(first) >= _SIGNED_END):
        return None
    if values.count(first) < len(values):
        return None
    return "NULL" if first is None else str(first)


def _create(table: Filled) -> str:
    key = [each.name for each in table.columns if each.primary_key]
    lines = [_declaration(column, alone=len(key) == 1) for column in table.columns]
    if len(key) > 1:
        lines.append(f"PRIMARY KEY ({', '.join(key)})")
    body = ",\n    ".join(lines)
    return f'CREATE TABLE "{table.name}" (\n    {body}\n)'


def _declaration(column: Column, *, alone: bool) -> str:
    not_null = " NOT NULL" if column.not_null else ""
    primary_key = " PRIMARY KEY" if column.primary_key and alone else ""
    return f'"{column.name}" {column.sql_type}{not_null}{primary_key}'


def _stored(column: Column, values: list[Value]) -> list[Value]:
    """Wrap unsigned numbers of 64 bits, as nsys does: SQLite's are signed."""
    if column.type != "u64":
        return values
    return [
        value - (1 << 64) if isinstance(value, int) and value >= _SIGNED_END else value
        for value in values
    ]
