"""Look ids up in the export's string table."""

from __future__ import annotations

from typing import Protocol

import polars as pl

from overlapaudit.reader.schema import STRINGS, Table

_MISSING = "missing"


class StringTable(Protocol):
    """A source that can read its string table by id."""

    def read_strings(self, table: Table, ids: pl.Series) -> pl.DataFrame | None:
        """Give `id` and `value` of the strings with one of `ids`; None without such a table."""


def lookup(source: StringTable, ids: pl.Series, *, placeholder: str | None) -> pl.DataFrame:
    """Give one row (`id`, `value`) for each distinct id that is not null.

    An id without a string gets `placeholder#id`, or null where no placeholder is given: a row
    is never dropped because its name was lost.
    """
    distinct: pl.DataFrame = ids.unique().drop_nulls().sort().alias("id").to_frame()
    found = source.read_strings(STRINGS, distinct["id"])
    if found is None:
        found = pl.DataFrame(schema={"id": pl.Int64, "value": pl.String})
    joined = distinct.join(found.unique("id", keep="first"), on="id", how="left")
    if placeholder is None:
        return joined
    return joined.with_columns(
        pl.col("value").fill_null(pl.format(f"{placeholder}#{{}}", pl.col("id")))
    )


def named(
    source: StringTable, frame: pl.DataFrame, id_column: str, *, placeholder: str
) -> pl.DataFrame:
    """Replace the column of ids by a Categorical column `name`."""
    names = lookup(source, frame[id_column], placeholder=placeholder).select(
        pl.col("id").alias(id_column), pl.col("value").cast(pl.Categorical).alias("name")
    )
    return frame.join(names, on=id_column, how="left", maintain_order="left").drop(id_column)
