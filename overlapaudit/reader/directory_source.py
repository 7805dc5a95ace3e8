"""The tables of an nsys `parquetdir` or `arrowdir` export: one file a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import polars as pl

from overlapaudit.model.errors import InputError
from overlapaudit.model.progress import Progress, silent
from overlapaudit.reader import invalid_text
from overlapaudit.reader.schema import Column, ColumnType, Table, physical_name, present_columns
from overlapaudit.reader.sqlite_source import DTYPES

T = TypeVar("T")

SUFFIXES = (".parquet", ".arrow")


class DirectorySource:
    """An open export folder."""

    def __init__(self, path: Path, *, progress: Progress = silent) -> None:
        self.path = path
        self._progress = progress
        self._files = {file.stem: file for file in table_files(path)}
        self._columns = {name: self._column_names(file) for name, file in self._files.items()}

    @property
    def columns_of(self) -> dict[str, list[str]]:
        """Give the column names of each table in the folder."""
        return self._columns

    def read(self, table: Table) -> pl.DataFrame | None:
        """Read the wanted columns; the same contract as the SQLite source's.

        nsys writes keys in widths that differ from table to table (int32 to uint64), so they all
        become Int64 here; values of 2^63 and more wrap, as they do in SQLite.
        """
        name = physical_name(table, self._columns)
        if name is None:
            return None
        spelled = present_columns(table, self._columns[name])
        file = self._files[name]
        frame = self._load(file, list(spelled.values()))
        self._progress(name, frame.height, frame.height)
        try:
            return frame.select(
                _as_column(pl.col(spelled[c.name]), c, frame.schema[spelled[c.name]])
                if c.name in spelled
                else pl.lit(None, dtype=DTYPES[c.type]).alias(c.name)
                for c in table.columns
            )
        except _UNREADABLE as error:
            raise self._damaged(file, error) from error

    def has_rows(self, table: Table) -> bool:
        """Tell whether a table is there and has a row."""
        frame = self.read(table)
        return frame is not None and not frame.is_empty()

    def read_strings(self, table: Table, ids: pl.Series) -> pl.DataFrame | None:
        """Read the rows of a string table (columns `id`, `value`) that have one of `ids`."""
        frame = self.read(table)
        return None if frame is None else frame.filter(pl.col("id").is_in(ids.implode()))

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _column_names(self, file: Path) -> list[str]:
        def read() -> list[str]:
            if file.suffix == ".parquet":
                return list(pl.read_parquet_schema(file))
            return pl.read_ipc_stream(file, n_rows=0).columns

        return self._read(file, read, lambda: invalid_text.column_names(file))

    def _load(self, file: Path, columns: list[str]) -> pl.DataFrame:
        def read() -> pl.DataFrame:
            if file.suffix == ".parquet":
                return pl.read_parquet(file, columns=columns)
            return pl.read_ipc_stream(file, columns=columns)

        return self._read(file, read, lambda: invalid_text.read(file, columns))

    def _read(self, file: Path, read: Callable[[], T], read_invalid: Callable[[], T]) -> T:
        try:
            return read()
        except _UNREADABLE as error:
            if not _is_about_text(error):
                raise self._damaged(file, error) from error
            if not invalid_text.can_read():
                raise InputError(
                    f"{self.path.name}/{file.name}: holds text that is not UTF-8; install pyarrow "
                    "to read it, or export to SQLite"
                ) from error
        try:
            return read_invalid()
        except (*_UNREADABLE, KeyError) as error:
            raise self._damaged(file, error) from error

    def _damaged(self, file: Path, error: BaseException) -> InputError:
        first_line = (str(error).splitlines() or ["no reason given"])[0]
        return InputError(f"{self.path.name}/{file.name}: cannot be read ({first_line})")


def table_files(path: Path) -> list[Path]:
    """Give the table files of an export folder; an empty list if it is none."""
    return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())


def _as_column(expression: pl.Expr, column: Column, actual: pl.DataType) -> pl.Expr:
    wanted = DTYPES[column.type]
    if column.type is ColumnType.INTEGER:
        if not (actual.is_integer() or actual == pl.Boolean):
            expression = expression.cast(pl.Int64, strict=False)
        return expression.cast(wanted, wrap_numerical=True).alias(column.name)
    if column.type is ColumnType.REAL:
        return expression.cast(wanted, strict=False).fill_nan(None).alias(column.name)
    return expression.cast(wanted, strict=False).alias(column.name)


def _is_about_text(error: BaseException) -> bool:
    said = str(error).lower()
    return "utf-8" in said or "utf8" in said


# polars raises a PanicException, which is no Exception, on some damaged files.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
