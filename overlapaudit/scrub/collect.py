"""Find the private words of an export: in its fields, in environments, in paths."""

from __future__ import annotations

from overlapaudit.reader.schema import (
    GPU,
    KERNEL,
    KERNEL_SHORT_NAME,
    RUNTIME,
    STRINGS,
    physical_name,
    present_columns,
)
from overlapaudit.scrub.database import Database, quoted
from overlapaudit.scrub.environment import assignments_in, setting_of, settings_in
from overlapaudit.scrub.fields import DEVICE_COLUMN, Field, device_of, field_of
from overlapaudit.scrub.paths import users_in
from overlapaudit.scrub.private import Private

_CODE_NAMES = (
    (KERNEL, "demangledName"),
    (KERNEL_SHORT_NAME, "shortName"),
    (RUNTIME, "nameId"),
)


def collect(database: Database) -> Private:
    """Read all text of a database for private words.

    Names in fields come first, so that their numbers do not depend on what else is there.
    """
    private = Private()
    for row in database.named_values():
        _add_field(private, field_of(row.name), row.value)
    for table, column in database.text_columns:
        field = field_of(column) if column == DEVICE_COLUMN else Field.OTHER
        for text in database.texts(table, column):
            _add_field(private, field, text)
            for setting in settings_in(text):
                private.add_setting(setting)
            for user in users_in(text):
                private.add_user(user)
    gpu_names = _gpu_names(database)
    private.leave_numbers_of(gpu_names)
    private.leave(gpu_names)
    if private.values:
        private.leave(_code_names(database))
    return private


def _add_field(private: Private, field: Field, value: str) -> None:
    if field is Field.HOST:
        private.add_host(value)
    elif field is Field.USER:
        private.add_user(value)
    elif field is Field.DEVICE:
        private.add_host(device_of(value).host or "")
    elif field in (Field.SETTING, Field.ENVIRONMENT):
        for line in value.replace("\0", "\n").split("\n"):
            setting = setting_of(line)
            if setting is not None:
                private.add_setting(setting)
    elif field is Field.COMMAND:
        for setting in assignments_in(value):
            private.add_setting(setting)


def _code_names(database: Database) -> list[str]:
    """Give the names of the kernels and API calls of the export."""
    strings = physical_name(STRINGS, database.columns_of)
    chosen: list[str] = []
    for table, column in _CODE_NAMES:
        name = physical_name(table, database.columns_of)
        if name is not None and (
            spelled := present_columns(table, database.columns_of[name]).get(column)
        ):
            chosen.append(f"SELECT {quoted(spelled)} FROM {quoted(name)}")
    if strings is None or not chosen:
        return []
    return list(database.texts(strings, "value", f"id IN ({' UNION '.join(chosen)})"))


def _gpu_names(database: Database) -> list[str]:
    table = physical_name(GPU, database.columns_of)
    columns = [] if table is None else database.columns_of[table]
    return [
        text
        for column in columns
        if table is not None and column in ("name", "chipName")
        for text in database.texts(table, column)
    ]
