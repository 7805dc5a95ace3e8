"""Ready-made ways to read the columns of an export, one small function each.

Every reader gives its frames by table name: polars frames, and pandas frames from pandas.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from columns import Columns

if TYPE_CHECKING:
    import polars as pl

Frames: TypeAlias = Mapping[str, Sized]
Read: TypeAlias = Callable[[Path, Columns], Frames]


class NotAvailable(Exception):
    """A driver cannot run on this machine."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A driver by name; `modules` are imported before the clock starts."""

    read: Read
    modules: tuple[str, ...]


READERS: dict[str, Reader] = {}


def _reader(name: str, *modules: str) -> Callable[[Read], Read]:
    """Put a function into the registry."""

    def register(read: Read) -> Read:
        READERS[name] = Reader(read, modules)
        return read

    return register


def _select(table: str, names: Iterable[str]) -> str:
    """Write the query for some columns."""
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"SELECT {quoted} FROM {table}"


def _uri(path: Path) -> str:
    """Name the file for a driver that takes SQLite's read-only URIs."""
    return f"{path.resolve().as_uri()}?mode=ro"


@_reader("sqlite3 rows -> polars", "polars")
def read_rows(path: Path, columns: Columns) -> Frames:
    """Fetch all rows of a table, then turn them into a frame."""
    import polars as pl

    connection = sqlite3.connect(_uri(path), uri=True)
    return {
        table: pl.DataFrame(
            connection.execute(_select(table, names)).fetchall(),
            schema=names,
            orient="row",
            infer_schema_length=None,
        )
        for table, names in columns.items()
    }


@_reader("sqlite3 by column", "polars")
def read_by_column(path: Path, columns: Columns) -> Frames:
    """Fetch each column with a query of its own, so that only one is held as Python objects."""
    import polars as pl

    connection = sqlite3.connect(_uri(path), uri=True)

    def series(table: str, name: str) -> pl.Series:
        return pl.Series(name, [row[0] for row in connection.execute(_select(table, [name]))])

    return {
        table: pl.DataFrame([series(table, name) for name in names])
        for table, names in columns.items()
    }


@_reader("pandas.read_sql", "pandas")
def read_pandas(path: Path, columns: Columns) -> Frames:
    """Let pandas read through sqlite3."""
    import pandas as pd  # type: ignore[import-untyped] # its stubs are a package of their own

    connection = sqlite3.connect(_uri(path), uri=True)
    return {
        table: pd.read_sql(_select(table, names), connection) for table, names in columns.items()
    }


def _read_adbc_table(path: Path, table: str, names: list[str]) -> pl.DataFrame:
    """Read one table over a connection of its own, in batches of 65536 rows."""
    import adbc_driver_sqlite
    import adbc_driver_sqlite.dbapi
    import polars as pl

    option = adbc_driver_sqlite.StatementOptions.BATCH_ROWS.value
    with adbc_driver_sqlite.dbapi.connect(_uri(path)) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{option: "65536"})
        cursor.execute(_select(table, names))
        frame = pl.from_arrow(cursor.fetch_arrow_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


@_reader("adbc", "polars", "pyarrow", "adbc_driver_sqlite.dbapi")
def read_adbc(path: Path, columns: Columns) -> Frames:
    """Read one table after the other through ADBC."""
    return {table: _read_adbc_table(path, table, names) for table, names in columns.items()}


@_reader("adbc, 2 threads", "polars", "pyarrow", "adbc_driver_sqlite.dbapi")
def read_adbc_two_threads(path: Path, columns: Columns) -> Frames:
    """Read two tables at a time through ADBC."""
    with ThreadPoolExecutor(2) as pool:
        frames = pool.map(lambda item: _read_adbc_table(path, *item), columns.items())
        return dict(zip(columns, frames, strict=True))


@_reader("connectorx", "polars", "pyarrow", "connectorx")
def read_connectorx(path: Path, columns: Columns) -> Frames:
    """Read through ConnectorX, over Arrow."""
    import connectorx
    import polars as pl

    def frame(table: str, names: list[str]) -> pl.DataFrame:
        query = _select(table, names)
        arrow = connectorx.read_sql(f"sqlite://{path.resolve()}", query, return_type="arrow")
        read = pl.from_arrow(arrow)
        assert isinstance(read, pl.DataFrame)
        return read

    return {table: frame(table, names) for table, names in columns.items()}


@_reader("duckdb", "polars", "pyarrow", "duckdb")
def read_duckdb(path: Path, columns: Columns) -> Frames:
    """Read through DuckDB's sqlite extension, where it is installed already."""
    import duckdb
    import polars as pl

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    try:
        connection.execute("LOAD sqlite")
    except duckdb.Error as error:
        raise NotAvailable("not available offline: its sqlite extension is missing") from error
    place = str(path.resolve()).replace("'", "''")
    connection.execute(f"ATTACH '{place}' AS export (TYPE sqlite, READ_ONLY)")

    def frame(table: str, names: list[str]) -> pl.DataFrame:
        read = pl.from_arrow(connection.sql(_select(f"export.{table}", names)).to_arrow_table())
        assert isinstance(read, pl.DataFrame)
        return read

    return {table: frame(table, names) for table, names in columns.items()}
