"""From rows to the columns of one version: defaults, and strings by their ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from tests.tracebuilder.identity import Row, Text, Value
from tests.tracebuilder.layout import Column
from tests.tracebuilder.tables import TABLES, check_columns, columns_in
from tests.tracebuilder.versions import Schema

_STRINGS: Final = "StringIds"
_REFERENCES: Final = frozenset(
    {
        "nameId",
        "demangledName",
        "shortName",
        "mangledName",
        "textId",
        "jsonTextId",
        "filenameId",
        "contentId",
        "symbol",
        "module",
    }
)
_NO_STRING: Final = "[Unknown]"


@dataclass(frozen=True, slots=True)
class Filled:
    """A table as it is written: its columns, and the values of each."""

    name: str
    columns: tuple[Column, ...]
    values: tuple[list[Value], ...]


class _Strings:
    """Numbers strings in the order of their first use; 0 is nsys' own word for none."""

    def __init__(self) -> None:
        self._ids: dict[Text, int] = {_NO_STRING: 0}

    def ids_of(self, values: list[Value]) -> list[Value]:
        """Put ids for strings, and leave numbers and NULL as they are."""
        ids = self._ids
        return [
            ids.setdefault(value, len(ids)) if isinstance(value, (str, bytes)) else value
            for value in values
        ]

    def rows(self) -> list[Row]:
        """Give the rows of StringIds."""
        return [{"id": number, "value": text} for text, number in self._ids.items()]


def fill(
    schema: Schema,
    tables: Mapping[str, Sequence[Row]],
    *,
    lazy: bool,
    omit_tables: Collection[str],
    omit_columns: Collection[tuple[str, str]],
) -> list[Filled]:
    """Give the tables that an export of this version writes, those without rows if not lazy.

    Raises:
        ValueError: there is no such table or column in any version.
    """
    for name in omit_tables:
        check_columns(name, ())
    for name, column in omit_columns:
        check_columns(name, (column,))
    strings = _Strings()
    filled: list[Filled] = []
    for name, columns in columns_in(schema).items():
        if name == _STRINGS or name in omit_tables:
            continue
        rows = tables.get(name, ())
        if rows or not lazy:
            kept = _without(name, columns, omit_columns)
            filled.append(_filled(name, kept, rows, strings))
    if _STRINGS in omit_tables:
        return filled
    kept = _without(_STRINGS, TABLES[_STRINGS].columns, omit_columns)
    rows = [*strings.rows(), *tables.get(_STRINGS, ())]
    return [_filled(_STRINGS, kept, rows, strings), *filled]


def _without(
    name: str, columns: tuple[Column, ...], omitted: Collection[tuple[str, str]]
) -> tuple[Column, ...]:
    return tuple(each for each in columns if (name, each.name) not in omitted)


def _filled(
    name: str, columns: tuple[Column, ...], rows: Sequence[Row], strings: _Strings
) -> Filled:
    return Filled(name, columns, tuple(_values(column, rows, strings) for column in columns))


def _values(column: Column, rows: Sequence[Row], strings: _Strings) -> list[Value]:
    name = column.name
    values: list[Value] = list(map(dict.get, rows, repeat(name)))
    if name in _REFERENCES:
        values = strings.ids_of(values)
    if column.not_null and None in values:
        values = [
            _default(column, at) if value is None else value for at, value in enumerate(values)
        ]
    return values


def _default(column: Column, row: int) -> Value:
    """Give what stands in a column that cannot be NULL: the row's number if it is a key."""
    if column.type == "text":
        return ""
    return row if column.primary_key else 0
