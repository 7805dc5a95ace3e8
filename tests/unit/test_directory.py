"""Folder exports: the same answers as SQLite, and nothing that breaks them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest

import overlapaudit as oa
from overlapaudit.model.tables import TableName
from overlapaudit.reader import invalid_text
from tests.support import audit_file
from tests.tracebuilder import (
    Copy,
    EventRecord,
    Kernel,
    MemoryEvent,
    Metric,
    Range,
    Stream,
    Sync,
    make_directory_export,
    make_trace,
)

Kind = Literal["parquetdir", "arrowdir"]
CONTENT: dict[str, Any] = {
    "schema": "2024.2",
    "kernels": [Kernel(10_000, 20_000, "a"), Kernel(12_000, 30_000, "b", stream=9)],
    "copies": [Copy(15_000, 18_000, "d2h", stream=13)],
    "ranges": [Range("step", 0, 9, registered=True, payload=3), Range("é", 1, None, payload=0.5)],
    "event_records": [EventRecord(5_000, 5_001, event_id=3)],
    "syncs": [Sync(6_000, 6_001, "stream_wait", event_id=3), Sync(7_000, 41_000, "device_sync")],
    "memory_events": [MemoryEvent(5)],
    "metrics": [Metric(1, "SMs Active", -2)],
    "streams": [Stream(9, "non_blocking", -1)],
}


@pytest.fixture(params=["parquetdir", "arrowdir"])
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


def test_equal_to_sqlite(tmp_path: Path, kind: Kind) -> None:
    folder = make_directory_export(tmp_path / "t", kind=kind, **CONTENT)
    file = make_trace(tmp_path / "t.sqlite", **CONTENT)
    with oa.open_trace(folder) as one, oa.open_trace(file) as other:
        for name in TableName:
            assert one.table(name).equals(other.table(name)), name
            assert one.table(name).schema == pl.Schema(name.schema), name
    found, expected = audit_file(folder), audit_file(file)
    assert found.pop("inputs")[0]["file"] == "t"
    expected.pop("inputs")
    assert found == expected


def test_text_that_is_not_utf8(tmp_path: Path, kind: Kind) -> None:
    content = {**CONTENT, "kernels": [Kernel(10_000, 20_000, b"caf\xe9 \xff")]}
    folder = make_directory_export(tmp_path / "t", kind=kind, **content)
    with oa.open_trace(folder) as trace:
        assert "caf\ufffd \ufffd" in trace.operations["name"].to_list()


def test_text_that_is_not_utf8_without_pyarrow(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invalid_text, "can_read", lambda: False)
    content = {**CONTENT, "kernels": [Kernel(10_000, 20_000, b"\xff")]}
    folder = make_directory_export(tmp_path / "t", kind=kind, **content)
    with pytest.raises(oa.InputError, match="install pyarrow"):
        audit_file(folder)


def test_each_table_missing_in_turn(tmp_path: Path, kind: Kind) -> None:
    folder = make_directory_export(tmp_path / "t", kind=kind, **CONTENT)
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        file.unlink()
        assert audit_file(folder)["format_version"] == 1
        file.write_bytes(content)


@pytest.mark.parametrize("seed", range(12))
def test_random_damage(tmp_path: Path, kind: Kind, seed: int) -> None:
    folder = make_directory_export(tmp_path / "t", kind=kind, **CONTENT)
    chance = random.Random(seed)
    for file in sorted(folder.iterdir()):
        data = bytearray(file.read_bytes())
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        for _ in range(chance.choice([0, 1, 10]) if data else 0):
            data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(data)
    try:
        audit_file(folder)
    except oa.InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello, world"])
def test_files_that_are_no_tables(tmp_path: Path, kind: Kind, content: bytes) -> None:
    folder = make_directory_export(tmp_path / "t", kind=kind, **CONTENT)
    damaged = next(file for file in sorted(folder.iterdir()) if "KERNEL" in file.name)
    damaged.write_bytes(content)
    with pytest.raises(oa.InputError, match="KERNEL"):
        audit_file(folder)
