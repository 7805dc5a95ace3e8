"""No input breaks the program: the right exit code, one line, the input as it was."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from overlapaudit.reader import schema, sqlite_source
from tests.cli.conftest import Done, Run
from tests.tracebuilder import (
    ApiCall,
    Copy,
    Diagnostic,
    EventRecord,
    Gpu,
    GraphLaunch,
    GraphNode,
    Kernel,
    MemoryEvent,
    Memset,
    Metric,
    MpiRank,
    Overhead,
    ProfilerOverhead,
    Range,
    Stream,
    Sync,
    Thread,
    make_trace,
)

HOSTILE_NAMES: list[str | bytes] = [
    "<script>alert(1)</script>",
    "\x1b[2J\x1b]0;owned\x07\r\n\x00",
    "\u202egnp.exe\u2066",
    "b" + "<int, std::tuple<" * 600 + ">" * 600,  # 10 kB of template
    b"\xff\xfe caf\xe9 \xed\xa0\x80",
    "%s {} $(id) ' \" \\",
    "",
    "  ",
    "ncclDevKernel_" + "A" * 10_000,
]
FULL: dict[str, Any] = {
    "schema": "2025.5",
    "kernels": [Kernel(10_000, 20_000, name) for name in HOSTILE_NAMES],
    "copies": [Copy(21_000, 22_000)],
    "memsets": [Memset(23_000, 24_000)],
    "graph_launches": [GraphLaunch(30_000, 40_000)],
    "api_calls": [ApiCall(name or "x", 50_000, 50_001) for name in HOSTILE_NAMES],
    "syncs": [Sync(6_000, 6_001, "stream_wait", event_id=3), Sync(7_000, 41_000, "device_sync")],
    "event_records": [EventRecord(5_000, 5_001, event_id=3)],
    "ranges": [Range(name, 0, 9, registered=bool(name)) for name in HOSTILE_NAMES],
    "graph_nodes": [GraphNode(1)],
    "memory_events": [MemoryEvent(1)],
    "metrics": [Metric(1, "\x1b[31m", 2)],
    "overheads": [Overhead(1, 2)],
    "profiler_overheads": [ProfilerOverhead(1, 2)],
    "diagnostics": [Diagnostic(1, "warning", "\x1b[31m")],
    "gpus": [Gpu(name="\x1b[31m<b>GPU\x00")],
    "streams": [Stream(13)],
    "threads": [Thread("\x1b[31m", 1)],
    "mpi_ranks": [MpiRank(0)],
}


@contextmanager
def untouched(*paths: Path) -> Iterator[None]:
    """Check that these files and their folders are left exactly as they are."""
    before = [(path, _state(path)) for path in {*paths, *(path.parent for path in paths)}]
    yield
    for path, state in before:
        assert _state(path) == state, path


def _state(path: Path) -> object:
    if path.is_dir():
        return sorted(entry.name for entry in path.iterdir())
    return (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns)


def refused(run: Run, path: Path, said: str) -> None:
    for command in ("audit", "doctor"):
        done = run(command, path)
        assert done.status == 3
        assert done.out == ""
        assert said in done.complaint
        assert path.name in done.complaint


def audited(run: Run, path: Path) -> dict[str, Any]:
    with untouched(path):
        first, again = run("audit", path, "--json", "-"), run("audit", path, "--json", "-")
        text, doctor = run("audit", path), run("doctor", path)
    assert [first.status, text.status, doctor.status] == [0, 0, 0], first.err + text.err
    assert first.out == again.out
    assert "NaN" not in first.out
    assert first.out.isascii()
    for shown in (text, doctor):
        _check_printable(shown)
    document: dict[str, Any] = json.loads(first.out, parse_constant=pytest.fail)
    return document


def _check_printable(done: Done) -> None:
    assert done.err == ""
    assert all(line.isprintable() for line in done.out.split("\n"))
    assert max(len(line) for line in done.out.split("\n")) <= 80


def test_absent(run: Run, tmp_path: Path) -> None:
    refused(run, tmp_path / "absent.sqlite", "no such file")


def test_folder_without_a_trace(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    refused(run, tmp_path, "without an nsys export")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"hello", "not an SQLite database"),
        (b"\x00" * 5000, "not an SQLite database"),
        (b"SQLite format 3\x00", "truncated"),
        (b"SQLite format 3\x00" + b"\xff" * 5000, "truncated"),
        (
            b"SQLite format 3\x00\x10\x00" + bytes(range(250)) * 20,
            "cannot be read as an SQLite database",
        ),
        (b'{"traceEvents": []}', "not an SQLite database"),
    ],
)
def test_not_a_database(run: Run, tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace.sqlite"
    path.write_bytes(content)
    with untouched(path):
        refused(run, path, said)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_truncated(run: Run, tmp_path: Path, share: float) -> None:
    path = make_trace(tmp_path / "trace.sqlite", **FULL)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with untouched(path):
        refused(run, path, "truncated")


def test_unreadable(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "loop.sqlite"
    path.symlink_to(path)
    refused(run, path, "loop.sqlite")


@pytest.mark.parametrize("begin", ["EXCLUSIVE", "IMMEDIATE"])
def test_locked_by_a_writer(run: Run, tmp_path: Path, begin: str) -> None:
    path = make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 10)])
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        f"c.execute('BEGIN {begin}'); c.execute('DELETE FROM StringIds');"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        before = path.read_bytes()
        for command in ("audit", "doctor"):
            done = run(command, path)
            assert done.status == 3
            assert "written" in done.complaint
        assert path.read_bytes() == before
        writer.kill()


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_changes_that_are_not_in_the_file_yet(run: Run, tmp_path: Path, suffix: str) -> None:
    path = make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 10)])
    beside = path.with_name(path.name + suffix)
    beside.write_bytes(b"x" * 512)
    with untouched(path, beside):
        refused(run, path, "lies beside it")


def test_a_finished_database_in_wal_mode(run: Run, tmp_path: Path) -> None:
    path = make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 10)])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    assert audited(run, path)["devices"][0]["busy_ns"] == 10


def test_a_read_only_file_in_a_read_only_folder(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = make_trace(folder / "trace.sqlite", kernels=[Kernel(0, 10)])
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        assert audited(run, path)["devices"][0]["busy_ns"] == 10
    finally:
        folder.chmod(0o755)


def test_names_of_files(run: Run, tmp_path: Path) -> None:
    for name in ("a b%20?mode=rw#x&.sqlite", "'; DROP TABLE.sqlite", "é\u202e.sqlite", "\x1b[31m"):
        path = make_trace(tmp_path / name, kernels=[Kernel(0, 10)])
        assert audited(run, path)["inputs"][0]["file"] == name
        path.unlink()
    assert run("audit", tmp_path / "\x1b[31m\n").complaint.isprintable()


def test_a_database_without_nsys_tables(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t(a)")
        database.commit()
    refused(run, path, "holds no table of an nsys export")


@pytest.mark.parametrize("lazy", [True, False])
def test_an_export_without_rows(run: Run, tmp_path: Path, lazy: bool) -> None:
    path = make_trace(tmp_path / "trace.sqlite", lazy=lazy)
    document = audited(run, path)
    assert [one["code"] for one in document["findings"]] == ["OA001"]
    assert document["devices"] is None if lazy else document["devices"] == []


def _tables(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        return {
            name: [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')]
            for name in names
        }


@pytest.mark.parametrize("version", ["2022.2", "2026.4"])
def test_each_table_missing_in_turn(run: Run, tmp_path: Path, version: str) -> None:
    content = {**FULL, "schema": version}
    whole = make_trace(tmp_path / "whole.sqlite", **content)
    tables = _tables(whole)
    assert len(tables) > 15
    operations = audited(run, whole)["coverage"]["operations"]
    for name in tables:
        path = make_trace(tmp_path / "trace.sqlite", omit_tables=[name], **content)
        done = run("audit", path, "--json", "-")
        assert (done.status, done.err) == (0, ""), name
        found = json.loads(done.out)["coverage"]["operations"]
        assert (found == operations) is (name not in GPU_TABLES), name
        _check_printable(run("doctor", path))


GPU_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}


def _read_columns() -> list[tuple[str, str]]:
    """The columns that the reader wants, of whatever table."""
    tables = [each for each in vars(schema).values() if isinstance(each, schema.Table)]
    wanted = {(name, column) for t in tables for name in t.names for column in t.column_names}
    return sorted(wanted)


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"])
def test_a_table_of_other_columns_is_no_table(run: Run, tmp_path: Path, table: str) -> None:
    path = make_trace(
        tmp_path / "t.sqlite", omit_tables=[table], extra_sql=f"CREATE TABLE {table}(foo)"
    )
    document = audited(run, path)
    assert document["coverage"]["operations"] is None
    assert [one["code"] for one in document["findings"]] == ["OA001"]


def test_views_and_tables_of_others(run: Run, tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(0, 10)],
        extra_sql="CREATE TABLE gone(a); CREATE VIEW broken AS SELECT a FROM gone; DROP TABLE gone;"
        "CREATE VIEW nsys_view AS SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL",
    )
    assert audited(run, path)["devices"][0]["busy_ns"] == 10


@pytest.mark.parametrize("versions", [b"\x01\x02", b"\x02\x01"])
def test_either_mark_of_wal_mode(run: Run, tmp_path: Path, versions: bytes) -> None:
    path = make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 10)])
    data = bytearray(path.read_bytes())
    data[18:20] = versions
    path.write_bytes(data)
    with untouched(path):
        assert run("audit", path).status in (0, 3)


def test_what_is_no_file(run: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.sqlite"
    os.mkfifo(pipe)
    refused(run, pipe, "not a regular file")
    make_trace(tmp_path / "rank0.sqlite", kernels=[Kernel(0, 10)])
    (tmp_path / "dangling.sqlite").symlink_to(tmp_path / "absent")
    done = run("audit", tmp_path, "--json", "-")
    assert [one["file"] for one in json.loads(done.out)["inputs"]] == ["rank0.sqlite"]


def test_a_report_beside_its_export_is_one_rank(run: Run, tmp_path: Path) -> None:
    make_trace(tmp_path / "rank0.sqlite", kernels=[Kernel(0, 10)])
    (tmp_path / "rank0.nsys-rep").write_bytes(b"a report")
    done = run("audit", tmp_path, "--json", "-")
    assert [one["file"] for one in json.loads(done.out)["inputs"]] == ["rank0.sqlite"]


def test_the_lock_is_held_while_a_trace_is_open(tmp_path: Path) -> None:
    path = make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 10)])
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None);"
        "c.execute('BEGIN EXCLUSIVE')"
    )
    command = [sys.executable, "-c", program, str(path)]
    with oa.open_trace(path) as trace:
        assert trace.identity.sha256
        assert trace.operations.height == 1
        held = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "locked" in held.stderr
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_names_that_make_patterns_slow(run: Run, tmp_path: Path) -> None:
    names = ["deep_ep::" * 20_000, "routing" * 20_000, "sm" + "1" * 100_000, "a" * 100_000]
    path = make_trace(tmp_path / "t.sqlite", kernels=[Kernel(0, 10, name) for name in names])
    assert audited(run, path)["coverage"]["operations"] == 4


def test_each_column_missing_in_turn(tmp_path: Path) -> None:
    there = _tables(make_trace(tmp_path / "whole.sqlite", **FULL))
    for name, column in _read_columns():
        if column not in there.get(name, ()) or len(there[name]) == 1:
            continue
        path = make_trace(tmp_path / "t.sqlite", omit_columns=[(name, column)], **FULL)
        with oa.open_trace(path) as trace:
            document = json.loads(oa.audit(trace).to_json())
        reasons = " ".join(gap["why"] for gap in document["coverage"]["not_recorded"])
        essential = name in GPU_TABLES and column in ("start", "end", "deviceId", "globalPid")
        assert (f"no column {name}.{column}" in reasons) is essential


def test_each_column_null_in_turn(tmp_path: Path) -> None:
    whole = make_trace(tmp_path / "whole.sqlite", **FULL)
    there = _tables(whole)
    for name, column in _read_columns():
        if column not in there.get(name, ()):
            continue
        path = tmp_path / "t.sqlite"
        path.write_bytes(whole.read_bytes())
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            # A copy of the table has no NOT NULL.
            database.executescript(
                f'CREATE TABLE bare AS SELECT * FROM "{name}"; UPDATE bare SET "{column}" = NULL;'
                f'DROP TABLE "{name}"; ALTER TABLE bare RENAME TO "{name}"'
            )
        with oa.open_trace(path) as trace:
            assert json.loads(oa.audit(trace).to_json())["format_version"] == 1


def test_hostile_names(run: Run, tmp_path: Path) -> None:
    path = make_trace(tmp_path / "trace.sqlite", **FULL)
    document = audited(run, path)
    assert document["coverage"]["operations"] == len(HOSTILE_NAMES) + 3
    with oa.open_trace(path) as trace:
        names = trace.operations["name"].to_list()
        assert "\ufffd\ufffd caf\ufffd" in names[4]
        html = oa.audit(trace)._repr_html_()
    assert "<script>" not in html
    assert "<b>GPU" not in html


def test_text_in_other_encodings(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "utf16.sqlite"
    source = make_trace(tmp_path / "trace.sqlite", **{**FULL, "kernels": [Kernel(0, 10, "é")]})
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA encoding = 'UTF-16le'")
        with closing(sqlite3.connect(source)) as old:
            old.text_factory = lambda raw: raw.decode("utf-8", "replace")
            for (statement,) in old.execute("SELECT sql FROM sqlite_master"):
                database.execute(statement)
            for name in _tables(source):
                rows = old.execute(f'SELECT * FROM "{name}"').fetchall()
                if rows:
                    marks = ",".join("?" * len(rows[0]))
                    database.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
    audited(run, path)
    with oa.open_trace(path) as trace:
        assert "é" in trace.operations["name"].to_list()


def test_zero_times(run: Run, tmp_path: Path) -> None:
    path = make_trace(tmp_path / "t.sqlite", kernels=[Kernel(0, 0), Kernel(0, 0)], duration_ns=0)
    (device,) = audited(run, path)["devices"]
    assert (device["window_ns"], device["busy_ns"], device["idle_ns"]) == (0, 0, 0)


def test_times_at_the_ends_of_int64(run: Run, tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(-(1 << 62), -5), Kernel(-10, 1 << 62), Kernel(0, 10, stream=9)],
        copies=[
            Copy((1 << 63) - 2, (1 << 63) - 1),
            Copy(-(1 << 63), (1 << 63) - 1, launch=None),
        ],
        api_calls=[ApiCall("cudaFree_v3020", -(1 << 63), (1 << 63) - 1)],
        duration_ns=(1 << 63) - 1,
        export_settings=[("EXPORT_PARAM_TIME_SHIFT", str(-(1 << 63)))],
    )
    document = audited(run, path)
    assert document["coverage"]["operations"] == 5
    (device,) = document["devices"]
    assert device["window_ns"] == device["busy_ns"] == 10  # the others have no time that can be
    assert any(
        "4 operations have no time" in gap["why"] for gap in document["coverage"]["not_recorded"]
    )


def test_a_clock_that_cannot_be(run: Run, tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(0, 10)],
        utc_start_ns=(1 << 63) - 1,
        export_settings=[
            ("EXPORT_PARAM_TIME_NORMALIZE", "true"),
            ("EXPORT_PARAM_TIME_SHIFT", "999999999999999999"),
        ],
    )
    assert audited(run, path)["devices"][0]["busy_ns"] == 10


def test_hostile_identifiers(run: Run, tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(0, 10), Kernel(20, 30), Kernel(40, 50)],
        extra_sql="UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = -1, deviceId = -7,"
        " contextId = 1 << 62, streamId = -(1 << 62), correlationId = -5 WHERE start = 20;"
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = x'00', deviceId = 'a' WHERE start = 40",
    )
    document = audited(run, path)
    assert document["coverage"]["operations"] == 3
    assert [device["device"] for device in document["devices"]] == [-7, 0]


def test_ten_thousand_streams(run: Run, tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(1_000_000 + n, 1_010_000 + n, stream=n) for n in range(10_000)],
        streams=[Stream(n) for n in range(10_000)],
    )
    (device,) = audited(run, path)["devices"]
    pair = device["overlap"][0]
    assert (pair["a"], pair["b"], pair["overlap_ns"]) == ("compute", "compute", 19_999 - 2)


def test_secrets_of_the_capture_stay_in_the_file(run: Run, tmp_path: Path) -> None:
    secret = "s3cr3t-token"
    path = make_trace(
        tmp_path / "t.sqlite",
        capture_settings=[("PROCESS_0:ENVIRONMENT_VARIABLE", f"HF_TOKEN={secret}")],
        system_env=[("Hostname", secret), ("UserName", secret)],
        **{name: value for name, value in FULL.items() if name != "schema"},
    )
    for command in ("audit", "doctor"):
        assert secret not in run(command, path).out
    assert secret not in run("audit", path, "--json", "-").out


@pytest.mark.parametrize("seed", range(40))
def test_random_damage(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage bytes or pages: an answer or an InputError, by the driver and by the decoder."""
    monkeypatch.setitem(
        sqlite_source.SqliteSource.__init__.__kwdefaults__,
        "decode_from_bytes",
        0 if seed % 2 else 1 << 40,
    )
    kernels = [Kernel(n * 10, n * 10 + 9, f"k{n}", stream=n % 4) for n in range(1, 200)]
    path = make_trace(tmp_path / "t.sqlite", page_size=512, **{**FULL, "kernels": kernels})
    damaged = _damage(path.read_bytes(), random.Random(seed))
    path.write_bytes(damaged)
    try:
        with oa.open_trace(path) as trace:
            json.loads(oa.audit(trace).to_json())
    except oa.InputError as error:
        assert "\n" not in str(error)
    assert path.read_bytes() == damaged


def _damage(whole: bytes, chance: random.Random) -> bytes:
    data = bytearray(whole)
    pages = len(data) // 512
    for _ in range(chance.choice([1, 10, 200])):
        data[chance.randrange(100, len(data))] = chance.randrange(256)
    if chance.random() < 0.5:
        source, target = chance.randrange(pages), chance.randrange(1, pages)
        data[target * 512 : target * 512 + 512] = data[source * 512 : source * 512 + 512]
    return bytes(data)
