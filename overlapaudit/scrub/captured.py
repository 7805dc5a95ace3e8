"""Empty what nsys captured of a program's output, and of its own logs.

The tables keep their rows; the text, which lies among the names in StringIds, becomes empty. A
text that names something as well (a program may print the name of a range) stays for that use,
and the row gets an empty text of its own.
"""

from __future__ import annotations

from overlapaudit.reader.schema import STRINGS, Column, Table, physical_name
from overlapaudit.scrub.database import Database, quoted

_CAPTURED = (
    Table(("ProcessStreams",), (Column("contentId"),)),
    Table(("ANALYSIS_FILE",), (Column("contentId"),)),  # from 2024.x on
)
_CONTENT_ID = "contentid"
# Columns that hold ids of strings, in any table.
_NAME_IDS = frozenset(
    {"nameid", "textid", "demangledname", "shortname", "mangledname", "jsontextid", "filenameid",
     "symbol", "module"}
)  # fmt: skip


def empty_captured(database: Database) -> None:
    """Leave nothing of captured text."""
    tables = [
        name
        for table in _CAPTURED
        if (name := physical_name(table, database.columns_of)) is not None
    ]
    pointers: list[tuple[str, str]] = []
    for table in tables:
        for column in database.columns_of[table]:
            if column.lower() == _CONTENT_ID:
                pointers.append((quoted(table), quoted(column)))
            elif "content" in column.lower():
                name = quoted(column)
                database.execute(f"UPDATE {quoted(table)} SET {name} = '' WHERE {name} >= ''")
    strings = physical_name(STRINGS, database.columns_of)
    if pointers and strings is not None:
        _empty_strings(database, quoted(strings), pointers)


def _empty_strings(database: Database, strings: str, pointers: list[tuple[str, str]]) -> None:
    database.execute("CREATE TEMP TABLE output(id INTEGER PRIMARY KEY)")
    database.execute("CREATE TEMP TABLE shared(id INTEGER PRIMARY KEY)")
    for table, column in pointers:
        database.execute(
            f"INSERT OR IGNORE INTO output SELECT id FROM {strings} WHERE value NOT IN"
            f" ('', '[Unknown]') AND id IN (SELECT {column} FROM {table})"
        )
    for table, columns in database.columns_of.items():
        for column in columns:
            if column.lower() in _NAME_IDS:
                database.execute(
                    f"INSERT OR IGNORE INTO shared SELECT {quoted(column)} FROM {quoted(table)}"
                    f" WHERE {quoted(column)} IN (SELECT id FROM output)"
                )
    database.execute(
        f"INSERT INTO {strings}(id, value) SELECT max(id) + 1, '' FROM {strings}"
        " WHERE EXISTS (SELECT 1 FROM shared) HAVING max(id) IS NOT NULL"
    )
    for table, column in pointers:
        database.execute(
            f"UPDATE {table} SET {column} = (SELECT max(id) FROM {strings})"
            f" WHERE {column} IN (SELECT id FROM shared)"
        )
    database.execute(
        f"UPDATE {strings} SET value = '' WHERE id IN (SELECT id FROM output EXCEPT"
        " SELECT id FROM shared)"
    )
    database.execute("DROP TABLE output")
    database.execute("DROP TABLE shared")
