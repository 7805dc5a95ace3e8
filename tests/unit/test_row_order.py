"""Columns that are read apart must fit together, whatever indexes a tool has left in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

import overlapaudit as oa
from overlapaudit.reader import schema
from overlapaudit.reader.sqlite_source import SqliteSource
from tests.tracebuilder import Kernel, Range, make_trace


def test_an_index_does_not_permute_names(tmp_path: Path) -> None:
    names = ["gemm", "nccl"] * 4
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(1000 * n, 1000 * n + 9, name) for n, name in enumerate(names, 10)],
        extra_sql="CREATE TABLE k AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL;"
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;"
        "ALTER TABLE k RENAME TO CUPTI_ACTIVITY_KIND_KERNEL;"
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = NULL;"
        "CREATE INDEX one ON CUPTI_ACTIVITY_KIND_KERNEL(shortName)",
    )
    with oa.open_trace(path) as trace:
        assert trace.operations["name"].to_list() == names


@pytest.mark.parametrize("decode_from_bytes", [0, 1 << 40])
def test_an_index_does_not_permute_text(tmp_path: Path, decode_from_bytes: int) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        ranges=[Range(f"step {(n * 7) % 100:03d}", n, n + 1) for n in range(100)],
        extra_sql="CREATE INDEX one ON NVTX_EVENTS(text)",
    )
    source = SqliteSource(path, decode_from_bytes=decode_from_bytes)
    frame = source.read(schema.NVTX)
    source.close()
    assert frame is not None
    expected = [(n, f"step {(n * 7) % 100:03d}") for n in range(100)]
    assert frame.select("start", "text").rows() == expected


@pytest.mark.parametrize("decode_from_bytes", [0, 1 << 40])
@pytest.mark.parametrize(
    "declared",
    ["id INTEGER PRIMARY KEY DESC", "id INTEGER PRIMARY KEY", "id REAL", "id NUM", "id"],
)
def test_unusual_declarations(tmp_path: Path, decode_from_bytes: int, declared: str) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(0, 1)],
        extra_sql=f"DROP TABLE StringIds; CREATE TABLE StringIds({declared}, value TEXT);"
        "INSERT INTO StringIds VALUES (100, 'a'), (7, 'b'), (55, 'c')",
    )
    source = SqliteSource(path, decode_from_bytes=decode_from_bytes)
    frame = source.read(schema.STRINGS)
    source.close()
    assert frame is not None
    assert sorted(frame.rows()) == [(7, "b"), (55, "c"), (100, "a")]


def test_whole_numbers_in_real_columns_are_numbers(tmp_path: Path) -> None:
    # As tools write a column of numbers that has nulls.
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(10_000, 20_000), Kernel(30_000, 40_000)],
        extra_sql="CREATE TABLE k AS SELECT *, correlationId + 0.0 AS c"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;"
        "ALTER TABLE k DROP COLUMN correlationId; ALTER TABLE k RENAME COLUMN c TO correlationId;"
        "UPDATE k SET correlationId = NULL WHERE start = 30000;"
        "ALTER TABLE k RENAME TO CUPTI_ACTIVITY_KIND_KERNEL",
    )
    with oa.open_trace(path) as trace:
        assert trace.operations["correlation"].to_list() == [1, None]
        assert trace.operations["api_row"].to_list() == [0, None]
