"""How the tables of an export are written down, with the versions that have each column.

A column is written `name`, then what applies of: `:type`, `!` where NULL is not allowed, `*` where
it belongs to the primary key, `@since` and `@since..until` (the first version without it). The
types are those of the directory exports, measured on nsys 2024.2; SQLite knows three of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tests.tracebuilder.versions import Schema

_COLUMN: Final = re.compile(
    r"(?P<name>\w+)(:(?P<type>\w+))?(?P<not_null>!?)(?P<key>\*?)"
    r"(@(?P<since>[\d.]*?)(\.\.(?P<until>[\d.]+))?)?"
)
_SQL_TYPES: Final = {"text": "TEXT", "f64": "REAL", "f32": "REAL"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and the versions that have it: from `since` on, up to before `until`."""

    name: str
    type: str
    not_null: bool
    primary_key: bool
    since: str
    until: str

    @property
    def sql_type(self) -> str:
        """Give the type that SQLite declares."""
        return _SQL_TYPES.get(self.type, "INTEGER")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of any version, with the columns of all of them."""

    name: str
    columns: tuple[Column, ...]
    since: str
    until: str


def in_version(schema: Schema, part: Column | Table) -> bool:
    """Tell whether a version has this column or table."""
    return schema.at_least(part.since or "0.0.0") and not (
        part.until and schema.at_least(part.until)
    )


def table(name: str, columns: str, since: str = "", until: str = "") -> Table:
    """Write down a table: its columns in order, and the versions that have it."""
    return Table(name, tuple(_column(text) for text in columns.split()), since, until)


def _column(text: str) -> Column:
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise ValueError(f"no column: {text}")
    return Column(
        name=match["name"],
        type=match["type"] or "u32",
        not_null=bool(match["not_null"]),
        primary_key=bool(match["key"]),
        since=match["since"] or "",
        until=match["until"] or "",
    )
