"""Writes a trace as a folder with one Parquet or Arrow file a table."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from tests.tracebuilder.content import assemble
from tests.tracebuilder.fill import Filled, fill
from tests.tracebuilder.identity import Value
from tests.tracebuilder.layout import Column
from tests.tracebuilder.versions import schema_named

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tests.tracebuilder.content import Content

DirectoryKind = Literal["parquetdir", "arrowdir"]

_SUFFIXES: Final[dict[DirectoryKind, str]] = {"parquetdir": ".parquet", "arrowdir": ".arrow"}
_ROW_GROUP: Final = 2048
_TYPES: Final = {
    "bool": pa.bool_(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "text": pa.string(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
}
_BITS: Final = {"u32": 32, "u64": 64}

# Older folders lack some tables that the SQLite export of the same report has.
_COMPLETE_SINCE: Final = "3.11.1"
_ONLY_IN_SQLITE: Final = ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "META_DATA_CAPTURE")


def make_directory_export(
    path: str | PathLike[str],
    *,
    kind: DirectoryKind = "parquetdir",
    schema: str = "2024.2",
    lazy: bool = True,
    omit_tables: Collection[str] = (),
    omit_columns: Collection[tuple[str, str]] = (),
    **content: Unpack[Content],
) -> Path:
    """Write a folder of tables; the same arguments give the same bytes.

    Args:
        path: The folder, which must not be there yet.
        kind: What each file is: Parquet, or an Arrow stream.
        schema: The release that wrote it, one of SCHEMAS.
        lazy: Leave out tables without rows, as nsys does by default.
        omit_tables: Names of tables to leave out, whatever they hold.
        omit_columns: Pairs of a table and its column to leave out.
        **content: What the trace holds, see Content.

    Raises:
        ValueError: there is no such kind, schema, table or column, or the content contradicts
            itself.
    """
    if kind not in _SUFFIXES:
        raise ValueError(f"no kind {kind!r}; there are {', '.join(_SUFFIXES)}")
    version = schema_named(schema)
    lacking = () if version.at_least(_COMPLETE_SINCE) else _ONLY_IN_SQLITE
    tables = fill(
        version,
        assemble(version, content, lazy=lazy, kind=kind),
        lazy=lazy,
        omit_tables={*omit_tables, *lacking},
        omit_columns=omit_columns,
    )
    folder = Path(path)
    folder.mkdir()
    for table in tables:
        file = folder / f"{table.name}{_SUFFIXES[kind]}"
        if kind == "parquetdir":
            _write_parquet(file, table)
        else:
            _write_stream(file, table)
    return folder


def _write_parquet(file: Path, table: Filled) -> None:
    frame = _frame(table, {**_TYPES, "u32": pa.int64()}, metadata=None)
    pq.write_table(
        frame,
        file,
        row_group_size=_ROW_GROUP,
        version="1.0",
        compression="none",
        store_schema=False,
    )


def _write_stream(file: Path, table: Filled) -> None:
    frame = _frame(table, _TYPES, metadata={"table_name": table.name})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, frame.schema) as writer:
        writer.write_table(frame)


def _frame(table: Filled, types: dict[str, Any], metadata: dict[str, str] | None) -> Any:
    fields = [pa.field(c.name, types[c.type], nullable=not c.not_null) for c in table.columns]
    arrays = [
        _array(column, values, types[column.type])
        for column, values in zip(table.columns, table.values, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))


def _array(column: Column, values: list[Value], type_: Any) -> Any:
    if column.type == "text":
        # A view, for it does not ask whether the bytes are UTF-8.
        return pa.array([_bytes(value) for value in values], pa.binary()).view(type_)
    if column.type == "bool":
        return pa.array([None if value is None else bool(value) for value in values], type_)
    bits = _BITS.get(column.type)
    if bits is not None:
        values = [value % (1 << bits) if isinstance(value, int) else value for value in values]
    return pa.array(values, type_)


def _bytes(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()
