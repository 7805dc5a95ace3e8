"""The tables of an nsys SQLite export, read by page decoding where it pays, else by the driver."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from overlapaudit.model.progress import Progress, silent
from overlapaudit.reader import sqlite_guard
from overlapaudit.reader.btree import UnusualFile
from overlapaudit.reader.pages import PagedFile, TablePlan
from overlapaudit.reader.schema import Column, ColumnType, Table, physical_name, present_columns

# Of a smaller file the driver has read all before numba is even imported; of a smaller table in
# a large file it has done so before the threads have started.
_DECODE_FROM_BYTES = 16_000_000
_DECODE_TABLE_FROM_BYTES = 500_000
_ROWS_AT_ONCE = 65_536
_ROWID = "<rowid>"  # no column of an export
_STRINGS_AT_ONCE = 500  # SQLite takes at least 999 parameters in a statement


class SqliteSource:
    """An open export. `decode_from_bytes` is the file size from which pages are decoded."""

    def __init__(
        self,
        path: Path,
        *,
        progress: Progress = silent,
        decode_from_bytes: int = _DECODE_FROM_BYTES,
    ) -> None:
        self.path = path
        self._progress = progress
        sqlite_guard.check_whole(path)
        sqlite_guard.check_not_being_written(path)
        self._lock = sqlite_guard.read_lock(path)
        # Kept open: closing any handle of the file would drop the lock of the whole process.
        self.handle = path.open("rb")
        self._connection = sqlite_guard.connect(path, immutable=True)
        self._pages: PagedFile | None = None
        self._in_order: set[str] = set()  # tables, which can be read in the order of their rows
        self._table_from_bytes = min(_DECODE_TABLE_FROM_BYTES, decode_from_bytes)
        try:
            self._tables = self._list_tables()
            if path.stat().st_size >= decode_from_bytes:
                self._pages = PagedFile(self.handle)
        except sqlite_guard.UNREADABLE as error:
            self.close()
            raise sqlite_guard.damaged(path, error) from error
        except UnusualFile:
            pass

    @property
    def columns_of(self) -> dict[str, list[str]]:
        """Give the column names of each table in the file."""
        return self._tables

    def read(self, table: Table) -> pl.DataFrame | None:
        """Read the wanted columns of a table, under their current names.

        Returns:
            A frame of Int64, Float64 and String columns, null where the file has no such column;
            None where the file has no such table.

        Raises:
            InputError: the table is damaged.
        """
        name = physical_name(table, self._tables)
        if name is None:
            return None
        spelled = present_columns(table, self._tables[name])
        try:
            frame = self._read(name, [c for c in table.columns if c.name in spelled], spelled)
        except sqlite_guard.UNREADABLE as error:
            raise sqlite_guard.damaged(self.path, error) from error
        return frame.select(
            pl.col(column.name)
            if column.name in spelled
            else pl.lit(None, dtype=DTYPES[column.type]).alias(column.name)
            for column in table.columns
        )

    def has_rows(self, table: Table) -> bool:
        """Tell whether a table is there and has a row, without reading it.

        Raises:
            InputError: the table is damaged.
        """
        name = physical_name(table, self._tables)
        if name is None:
            return False
        try:
            row = self._connection.execute(f"SELECT 1 FROM {_quoted(name)} LIMIT 1").fetchone()
        except sqlite_guard.UNREADABLE as error:
            raise sqlite_guard.damaged(self.path, error) from error
        return row is not None

    def read_strings(self, table: Table, ids: pl.Series) -> pl.DataFrame | None:
        """Read the rows of a string table (columns `id`, `value`) that have one of `ids`.

        Raises:
            InputError: the table is damaged.
        """
        name = physical_name(table, self._tables)
        if name is None or len(present_columns(table, self._tables[name])) < len(table.columns):
            return None
        if len(ids) > 20_000:
            return self.read(table)
        statement = f"SELECT id, value FROM {_quoted(name)} WHERE id IN "
        rows: list[tuple[object, ...]] = []
        wanted = ids.to_list()
        try:
            with sqlite_guard.texts_as_bytes(self._connection):
                for begin in range(0, len(wanted), _STRINGS_AT_ONCE):
                    part = wanted[begin : begin + _STRINGS_AT_ONCE]
                    marks = ",".join("?" * len(part))
                    rows += self._connection.execute(f"{statement}({marks})", part).fetchall()
        except sqlite_guard.UNREADABLE as error:
            raise sqlite_guard.damaged(self.path, error) from error
        return _frame(rows, [Column("id"), Column("value", ColumnType.TEXT)])

    def close(self) -> None:
        """Let go of the file."""
        self._pages = None
        self._connection.close()
        self.handle.close()
        if self._lock is not None:
            self._lock.close()

    def _list_tables(self) -> dict[str, list[str]]:
        listed = self._connection.execute(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        ).fetchall()
        tables = {}
        for name, kind in listed:
            try:
                info = self._connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
            except sqlite3.OperationalError:
                continue  # a view of something that is gone, a table of a module that is not here
            tables[name] = [row[1] for row in info]
            if kind == "table":
                self._in_order.add(name)
        return tables

    def _read(self, name: str, columns: list[Column], spelled: dict[str, str]) -> pl.DataFrame:
        texts = [c for c in columns if c.type is ColumnType.TEXT]
        numbers = [c for c in columns if c.type is not ColumnType.TEXT]
        plan = self._plan(name, [spelled[c.name] for c in numbers], numbers)
        if self._pages is None or plan is None:
            return self._read_by_driver(name, columns, spelled)
        if texts and "rowid" in (column.lower() for column in self._tables[name]):
            return self._read_by_driver(name, columns, spelled)
        # Text stands in few rows of a large table: it is read apart, and put where it belongs.
        names = [c.name for c in numbers]
        key = names[plan.rowid_slot] if plan.rowid_slot >= 0 else _ROWID
        if texts and key == _ROWID:
            plan = replace(plan, rowid_slot=len(numbers), real=(*plan.real, False))
            names.append(key)
        try:
            if self._pages.size_of(plan.root) < self._table_from_bytes:
                return self._read_by_driver(name, columns, spelled)
            frame = self._pages.read(
                plan, names, lambda done, total: self._progress(name, done, total)
            )
        except UnusualFile:
            return self._read_by_driver(name, columns, spelled)
        for column in texts:
            found = self._texts_by_rowid(name, column, spelled[column.name])
            frame = frame.join(
                found, left_on=key, right_on=_ROWID, how="left", maintain_order="left"
            )
        return frame.drop(_ROWID, strict=False)

    def _texts_by_rowid(self, name: str, column: Column, actual: str) -> pl.DataFrame:
        """Read the rows that have text in a column."""
        wanted = [Column(_ROWID), column]
        text = _quoted(actual)
        statement = (
            f"SELECT rowid, {text} FROM {_quoted(name)} NOT INDEXED WHERE {text} IS NOT NULL"
        )
        with sqlite_guard.texts_as_bytes(self._connection):
            cursor = self._connection.execute(statement)
            parts = [_frame([], wanted)]
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                parts.append(_frame(rows, wanted))
        return pl.concat(parts)

    def _read_by_driver(
        self, name: str, columns: Sequence[Column], spelled: dict[str, str]
    ) -> pl.DataFrame:
        if not columns:
            return pl.DataFrame()
        wanted = ", ".join(_quoted(spelled[c.name]) for c in columns)
        # An index that holds all that is wanted would give the rows in its own order, and columns
        # that are read apart would not fit together.
        in_order = " NOT INDEXED" if name in self._in_order else ""
        parts: list[pl.DataFrame] = []
        done = 0
        with sqlite_guard.texts_as_bytes(self._connection):
            cursor = self._connection.execute(f"SELECT {wanted} FROM {_quoted(name)}{in_order}")
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                parts.append(_frame(rows, columns))
                done += len(rows)
                self._progress(name, done, 0)
        return pl.concat(parts) if parts else _frame([], columns)

    def _plan(self, name: str, spelled: list[str], columns: list[Column]) -> TablePlan | None:
        """Plan the decoding of a table; None where its shape is not the plain one."""
        row = self._connection.execute(
            "SELECT rootpage, sql FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)
        ).fetchone()
        sql = str(row[1]).upper() if row is not None else ""
        # A key in descending order is no name for the rowid.
        if row is None or not columns or "WITHOUT" in sql or "DESC" in sql:
            return None
        # cid, name, type, notnull, dflt_value, pk, hidden
        info = self._connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
        if any(column[4] is not None or column[6] for column in info):
            return None  # defaults are not stored in old rows; generated columns not at all
        declared = {column[1]: str(column[2]).upper() for column in info}
        if any(
            c.type is ColumnType.INTEGER and _is_real(declared[actual])
            for c, actual in zip(columns, spelled, strict=True)
        ):
            return None  # whole numbers are stored as integers there, and mean fractions
        position = {column[1]: column[0] for column in info}
        keys = [column for column in info if column[5]]
        rowid = keys[0][1] if len(keys) == 1 and keys[0][2].upper() == "INTEGER" else None
        slot_of = {position[actual]: slot for slot, actual in enumerate(spelled)}
        return TablePlan(
            root=row[0],
            width=max(slot_of) + 1,
            slot_of=slot_of,
            real=tuple(c.type is ColumnType.REAL for c in columns),
            rowid_slot=spelled.index(rowid) if rowid in spelled else -1,
        )


DTYPES: dict[ColumnType, pl.DataType] = {
    ColumnType.INTEGER: pl.Int64(),
    ColumnType.REAL: pl.Float64(),
    ColumnType.TEXT: pl.String(),
}


def _frame(rows: Sequence[tuple[object, ...]], columns: Sequence[Column]) -> pl.DataFrame:
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return pl.DataFrame(
        [_column(column, list(cells)) for column, cells in zip(columns, values, strict=True)]
    )


def _column(column: Column, cells: list[object]) -> pl.Series:
    """Make a column of one type; SQLite lets any value stand anywhere, a misfit becomes null."""
    if column.type is ColumnType.TEXT:
        return _texts(column.name, cells)
    dtype = DTYPES[column.type]
    try:
        return pl.Series(column.name, cells, dtype=dtype, strict=True)
    except (TypeError, pl.exceptions.PolarsError):
        fitting = _FITTING[column.type]
        return pl.Series(
            column.name,
            [cell if isinstance(cell, fitting) else _whole(cell, column.type) for cell in cells],
            dtype=dtype,
        )


def _texts(name: str, cells: list[object]) -> pl.Series:
    """Make a column of text from the bytes of texts; what is not UTF-8 gets U+FFFD."""
    try:
        texts: pl.Series = pl.Series(name, cells, dtype=pl.Binary, strict=True).cast(pl.String)
        return texts
    except (TypeError, pl.exceptions.PolarsError):
        decoded = [
            cell.decode("utf-8", "replace") if isinstance(cell, bytes) else None for cell in cells
        ]
        return pl.Series(name, decoded, dtype=pl.String)


def _whole(cell: object, kind: ColumnType) -> int | None:
    """Give a fraction that is a whole number as one: tools that know no null write keys so."""
    if kind is ColumnType.INTEGER and isinstance(cell, float) and cell.is_integer():
        return int(cell) if abs(cell) < 1 << 63 else None
    return None


def _is_real(declared: str) -> bool:
    """Tell whether SQLite gives a column of this declared type the affinity REAL."""
    if "INT" in declared or "CHAR" in declared or "CLOB" in declared or "TEXT" in declared:
        return False
    return any(word in declared for word in ("REAL", "FLOA", "DOUB"))


_FITTING: dict[ColumnType, type | tuple[type, ...]] = {
    ColumnType.INTEGER: int,
    ColumnType.REAL: (int, float),
}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
