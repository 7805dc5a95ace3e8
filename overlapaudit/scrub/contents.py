"""Rewrite what a database holds: its fields, then all other text in whatever table."""

from __future__ import annotations

from collections.abc import Iterator

from overlapaudit.model.progress import Progress
from overlapaudit.scrub.database import Database, Named, Value, quoted
from overlapaudit.scrub.fields import DEVICE_COLUMN, Field, field_of
from overlapaudit.scrub.rewriter import Rewriter

_NIC_TABLE = "TARGET_INFO_NIC_INFO"
_NIC_ID = "GUID"  # holds the MAC address; nothing refers to it


def rewrite(database: Database, rewriter: Rewriter, progress: Progress) -> None:
    """Rewrite all that has to change, and touch no other row."""
    for row, value in list(changed_fields(database, rewriter)):
        database.set_value(row, value)
    if _NIC_ID in database.columns_of.get(_NIC_TABLE, ()):
        database.execute(f"UPDATE {quoted(_NIC_TABLE)} SET {quoted(_NIC_ID)} = 0")
    columns = database.text_columns
    for done, (table, column) in enumerate(columns):
        progress(table, done, len(columns))
        changes = changed_values(database, rewriter, table, column)
        if changes:
            database.replace(table, column, changes)


def changed_fields(database: Database, rewriter: Rewriter) -> Iterator[tuple[Named, str | None]]:
    """Give the named values that have to change, and what to; None if the row has to go."""
    for row in database.named_values():
        value = rewriter.field(field_of(row.name), row.value)
        if value != row.value:
            yield row, value


def changed_values(
    database: Database, rewriter: Rewriter, table: str, column: str
) -> dict[Value, Value]:
    """Give the distinct values of a column that have to change, and what to."""
    changes: dict[Value, Value] = {}
    field = Field.DEVICE if column == DEVICE_COLUMN else Field.OTHER
    for value in database.values(table, column):
        if value.blob:
            new = Value(rewriter.blob(value.raw), blob=True)
        else:
            old = database.decoded(value)
            text = rewriter.field(field, old)
            if text == old:
                continue
            new = database.encoded(text or "")
        if new != value:
            changes[value] = new
    return changes
