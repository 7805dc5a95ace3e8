"""Read table files of a folder export whose text is not UTF-8, which polars refuses to do.

nsys copies whatever bytes a program gave it as a name. pyarrow reads them as they are.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl


def can_read() -> bool:
    """Tell whether pyarrow, which this needs, is installed."""
    return find_spec("pyarrow") is not None


def column_names(file: Path) -> list[str]:
    """Give the names of the columns of a Parquet or Arrow stream file."""
    names: list[str] = _table(file).column_names
    return names


def read(file: Path, columns: list[str]) -> pl.DataFrame:
    """Read columns of a Parquet or Arrow stream file, with U+FFFD for bytes that are no text."""
    import pyarrow as pa  # noqa: PLC0415

    table = _table(file).select(columns)
    return pl.DataFrame(
        [
            _decoded(name, table[name])
            if pa.types.is_string(table[name].type) or pa.types.is_large_string(table[name].type)
            else pl.Series(name, pl.from_arrow(table[name]))
            for name in columns
        ]
    )


def _decoded(name: str, texts: Any) -> pl.Series:
    # As bytes, text by text: `to_pylist` on strings would raise.
    raw = [value for chunk in texts.chunks for value in chunk.cast("binary").to_pylist()]
    decoded = [None if value is None else value.decode("utf-8", "replace") for value in raw]
    return pl.Series(name, decoded, dtype=pl.String)


def _table(file: Path) -> Any:
    # Heavy, optional, and hardly ever needed.
    from pyarrow import ipc, parquet  # noqa: PLC0415

    if file.suffix == ".parquet":
        return parquet.read_table(file)
    with ipc.open_stream(file) as stream:
        return stream.read_all()
