"""The builder against the real layouts, and against itself."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.tracebuilder import (
    DEFAULT_PROCESS,
    DEFAULT_THREAD,
    NO_CORRELATION,
    SCHEMAS,
    ApiCall,
    Content,
    Context,
    Copy,
    CudaDevice,
    Decompression,
    Diagnostic,
    EventRecord,
    Gpu,
    GraphCreation,
    GraphLaunch,
    GraphNode,
    HostCallback,
    HostNode,
    Kernel,
    MemoryEvent,
    Memset,
    Metric,
    MpiRank,
    Overhead,
    Process,
    ProfilerOverhead,
    Range,
    Stream,
    Sync,
    Thread,
    global_pid,
    graph_node_id,
    main_thread,
    make_directory_export,
    make_trace,
    mark,
    nvtx_category,
    nvtx_domain,
)
from tests.tracebuilder.content import assemble
from tests.tracebuilder.tables import check_columns, columns_in

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"

RANK_1 = global_pid(2000)
# A hardware id of 128 and more makes the 64-bit ids negative in SQLite.
FAR = global_pid(3000, hw=200)
SHORT = "gemm"
LONG = "void gemm<float>(float*)"

EVERYTHING: Content = {
    "kernels": [
        Kernel(20_000, 30_000, LONG, short_name=SHORT),
        Kernel(31_000, 32_000, "node", graph_node=graph_node_id(2, 1)),
        Kernel(20_000, 25_000, LONG, process=RANK_1, device=1),
        Kernel(21_000, 22_000, process=FAR),
    ],
    "copies": [Copy(22_000, 24_000, "d2h", stream=9), Copy(22_000, 24_000, "p2p", 64)],
    "memsets": [Memset(18_000, 19_000, 4096)],
    "graph_launches": [GraphLaunch(40_000, 45_000)],
    "decompressions": [Decompression(46_000, 47_000)],
    "host_nodes": [HostNode(47_000, 48_000)],
    "host_callbacks": [HostCallback(47_100, 47_900)],
    "api_calls": [ApiCall("cuCtxSynchronize", 100, 200)],
    "syncs": [
        Sync(50_000, 51_000, "stream_wait", event_id=3, event_sync_id=1),
        Sync(51_000, 59_000, "device_sync"),
    ],
    "event_records": [EventRecord(49_000, 49_500, 3, event_sync_id=1)],
    "ranges": [
        Range("step", 0, 60_000),
        Range("layer", 10, 20, registered=True),
        Range("big", 30, 40, payload=(1 << 64) - 1, payload_type="uint64"),
        Range("part", 50, None, payload=0.5),
        mark("here", 5),
        nvtx_domain("NCCL", 1),
        nvtx_category("io", 4),
    ],
    "graph_nodes": [GraphNode(graph_node_id(1, 1)), GraphNode(graph_node_id(2, 1), 1 << 32 | 1)],
    "graph_creations": [GraphCreation(1), GraphCreation(1, 2)],
    "memory_events": [MemoryEvent(500)],
    "metrics": [Metric(1000, "SMs Active", 50), Metric(1000, "GPC Clock", -7)],
    "overheads": [Overhead(1, 2)],
    "profiler_overheads": [ProfilerOverhead(3, 4)],
    "diagnostics": [Diagnostic("events were lost", "error")],
    "gpus": [Gpu(), Gpu(1)],
    "cuda_devices": [CudaDevice(), CudaDevice(1, 0, RANK_1)],
    "contexts": [Context(), Context(process=RANK_1, device=1)],
    "streams": [Stream(9, "non_blocking", -5, name="copies")],
    "processes": [Process("python"), Process("python", RANK_1)],
    "threads": [Thread("main", DEFAULT_THREAD)],
    "mpi_ranks": [MpiRank(0), MpiRank(1, RANK_1)],
    "capture_settings": [("CAPTURE_EVENT_TYPE", "GpuMetrics")],
    "export_settings": [("DERIVED_BY", "a trimming tool")],
    "system_env": [("NvDriverVersion", "1.2.3")],
    "duration_ns": 70_000,
}

Rows = list[tuple[Any, ...]]


def query(file: Path, sql: str) -> Rows:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(sql).fetchall()


def layout(database: sqlite3.Connection) -> dict[str, Rows]:
    """Give each table's columns: name, type, whether NULL is refused, place in the key."""
    names = [
        row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type='table'")
    ]
    return {
        name: [
            (column, kind, not_null, key)
            for _, column, kind, not_null, _, key in database.execute(
                f'PRAGMA table_info("{name}")'
            )
        ]
        for name in names
    }


def layout_of(file: Path) -> dict[str, Rows]:
    with closing(sqlite3.connect(file)) as database:
        return layout(database)


def reference_layout(script: str) -> dict[str, Rows]:
    folder = os.environ.get("OVERLAPAUDIT_REFERENCE")
    if not folder:
        pytest.skip("OVERLAPAUDIT_REFERENCE does not name the folder with the real layouts")
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript((Path(folder) / "ddl" / script).read_text())
        return layout(database)


# The real layouts


@pytest.mark.parametrize(
    ("schema", "script"), [("2022.4", "2022.4.2.sql"), ("2023.4", "2023.4.4.sql")]
)
def test_every_table_is_laid_out_as_nsys_does(tmp_path: Path, schema: str, script: str) -> None:
    real = reference_layout(script)
    ours = layout_of(make_trace(tmp_path / "x.sqlite", schema=schema, lazy=False))
    assert ours == {name: real.get(name) for name in ours}


@pytest.mark.parametrize(
    ("schema", "script"),
    [
        ("2024.6", "2024.6.2-observed.sql"),
        ("2025.3", "2025.3.1-observed.sql"),
        ("2025.5", "2025.5.2-observed.sql"),
        ("2026.1", "2026.1.1-observed.sql"),
        ("2026.2", "2026.2.1-observed.sql"),
        ("2026.4", "2026.4-docs.sql"),
    ],
)
def test_tables_that_were_seen_are_laid_out_alike(tmp_path: Path, schema: str, script: str) -> None:
    real = reference_layout(script)
    ours = layout_of(make_trace(tmp_path / "x.sqlite", schema=schema, lazy=False))
    shared = ours.keys() & real.keys()
    assert {KERNEL, RUNTIME, "StringIds"} <= shared
    assert {name: ours[name] for name in shared} == {name: real[name] for name in shared}


def test_tables_and_columns_come_and_go_with_versions(tmp_path: Path) -> None:
    layouts = {
        schema: layout_of(make_trace(tmp_path / f"{schema}.sqlite", schema=schema, lazy=False))
        for schema in SCHEMAS
    }

    def with_table(name: str) -> list[str]:
        return [schema for schema, tables in layouts.items() if name in tables]

    def with_column(table: str, name: str) -> list[str]:
        return [
            schema
            for schema, tables in layouts.items()
            if name in [column for column, *_ in tables[table]]
        ]

    order = list(SCHEMAS)
    assert with_table("EXPORT_META_DATA") == ["2022.2", "2022.4"]
    assert with_table("META_DATA_EXPORT") == order[order.index("2023.4") :]
    assert with_table("TARGET_INFO_CUDA_NULL_STREAM") == ["2022.2", "2022.4"]
    assert with_table("ENUM_CUDA_KRENEL_LAUNCH_TYPE") == ["2022.4"]
    assert with_table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE") == order[order.index("2024.2") :]
    assert with_column("CUDA_GRAPH_EVENTS", "graphNodeId") == ["2022.2", "2022.4", "2023.4"]
    assert with_column(KERNEL, "greenContextId") == order[order.index("2023.4") :]
    assert with_column(SYNC, "eventSyncId") == order[order.index("2025.1") :]
    assert with_column("NVTX_EVENTS", "eventId") == ["2026.4"]


# One file for all


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_schema_holds_everything(tmp_path: Path, schema: str, lazy: bool) -> None:
    file = make_trace(tmp_path / "x.sqlite", schema=schema, lazy=lazy, **EVERYTHING)
    assert query(file, "PRAGMA integrity_check") == [("ok",)]
    assert query(file, f"SELECT count(*) FROM {KERNEL}") == [(4,)]
    meta = "META_DATA_EXPORT" if SCHEMAS[schema].at_least("3.7.2") else "EXPORT_META_DATA"
    settings: dict[str, str] = dict(query(file, f"SELECT name, value FROM {meta}"))
    assert settings["EXPORT_PRODUCT_VERSION"] == SCHEMAS[schema].exporter
    assert settings["EXPORT_SCHEMA_VERSION"] == SCHEMAS[schema].text
    assert settings["DERIVED_BY"] == "a trimming tool"
    assert query(file, "SELECT duration, stopTime - startTime FROM ANALYSIS_DETAILS") == [
        (70_000, 70_000)
    ]
    present = layout_of(file).keys()
    counts = {name: query(file, f'SELECT count(*) FROM "{name}"')[0][0] for name in present}
    assert (0 in counts.values()) is not lazy
    if not lazy:
        assert present == columns_in(SCHEMAS[schema]).keys()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_builder_knows_every_column_that_it_fills(schema: str) -> None:
    for name, rows in assemble(SCHEMAS[schema], EVERYTHING, lazy=True).items():
        check_columns(name, {column for row in rows for column in row})


def test_an_unwritten_trace_is_lazy_about_data(tmp_path: Path) -> None:
    tables = layout_of(make_trace(tmp_path / "x.sqlite"))
    assert {"StringIds", "TARGET_INFO_GPU", "META_DATA_EXPORT", "ENUM_CUPTI_SYNC_TYPE"} <= set(
        tables
    )
    assert not {KERNEL, RUNTIME, SYNC, "NVTX_EVENTS"} & set(tables)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_same_arguments_same_bytes(tmp_path: Path, schema: str) -> None:
    first = make_trace(tmp_path / "a.sqlite", schema=schema, **EVERYTHING).read_bytes()
    again = make_trace(tmp_path / "a.sqlite", schema=schema, **EVERYTHING).read_bytes()
    elsewhere = make_trace(tmp_path / "b.sqlite", schema=schema, **EVERYTHING).read_bytes()
    assert first == again == elsewhere


@pytest.mark.parametrize("page_size", [512, 65536])
def test_page_size(tmp_path: Path, page_size: int) -> None:
    file = make_trace(tmp_path / "x.sqlite", page_size=page_size, **EVERYTHING)
    assert query(file, "PRAGMA page_size") == [(page_size,)]


# Strings


def test_strings_are_numbered_by_first_use(tmp_path: Path) -> None:
    kernels = [
        Kernel(10, 20, LONG, short_name=SHORT, launch=None),
        Kernel(30, 40, SHORT, short_name=LONG, launch=None),
    ]
    file = make_trace(tmp_path / "x.sqlite", kernels=kernels)
    assert query(file, "SELECT * FROM StringIds ORDER BY id") == [
        (0, "[Unknown]"),
        (1, LONG),
        (2, SHORT),
    ]
    assert query(file, f"SELECT demangledName, shortName FROM {KERNEL}") == [(1, 2), (2, 1)]


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    file = make_trace(
        tmp_path / "x.sqlite",
        kernels=[Kernel(10_000, 20_000, b"caf\xe9")],
        ranges=[Range(b"\xff\xfe", 0, 1), Range(b"r\xe9", 2, 3, registered=True)],
        processes=[Process(b"p\x80")],
    )

    def stored(expression: str, rest: str) -> Rows:
        return query(file, f"SELECT typeof({expression}), hex({expression}) FROM {rest}")

    assert stored("text", "NVTX_EVENTS WHERE textId IS NULL") == [("text", "FFFE")]
    assert stored("name", "PROCESSES") == [("text", "7080")]
    assert stored("value", f"StringIds JOIN {KERNEL} ON id = demangledName") == [
        ("text", "636166E9")
    ]
    assert stored("value", "StringIds JOIN NVTX_EVENTS ON id = textId") == [("text", "72E9")]


def test_empty_text_is_null(tmp_path: Path) -> None:
    file = make_trace(
        tmp_path / "x.sqlite", ranges=[Range("", 0, 1), Range("", 0, 1, registered=True)]
    )
    assert query(file, "SELECT text, textId FROM NVTX_EVENTS") == [(None, None)] * 2


# API calls


def test_usual_calls_share_correlation_and_process(tmp_path: Path) -> None:
    file = make_trace(tmp_path / "x.sqlite", **EVERYTHING)
    join = f"""
        FROM {KERNEL} AS k JOIN {RUNTIME} AS r
        ON k.correlationId = r.correlationId AND k.globalPid = (r.globalTid & ~0xFFFFFF)
        JOIN StringIds ON id = nameId"""
    rows = query(file, f"SELECT r.end <= k.start, value {join} ORDER BY k.rowid")
    launch = (1, "cudaLaunchKernel_v7000")
    assert rows == [launch, (1, "cudaGraphLaunch_v10000"), launch, launch]


def test_ids_run_within_each_process(tmp_path: Path) -> None:
    file = make_trace(
        tmp_path / "x.sqlite",
        kernels=[
            Kernel(10_000, 11_000),
            Kernel(12_000, 13_000, correlation=2),
            Kernel(14_000, 15_000),
            Kernel(10_000, 11_000, process=RANK_1),
            Kernel(16_000, 17_000, correlation=NO_CORRELATION),
        ],
    )
    found = query(file, f"SELECT correlationId FROM {KERNEL} ORDER BY rowid")
    assert found == [(1,), (2,), (3,), (1,), (None,)]
    assert query(file, f"SELECT count(*), count(correlationId) FROM {RUNTIME}") == [(4, 4)]


def test_rows_of_one_id_have_one_call(tmp_path: Path) -> None:
    nodes = [
        Kernel(start, start + 10, correlation=5, graph_node=graph_node_id(1, node))
        for node, start in enumerate((30_000, 20_000, 40_000))
    ]
    file = make_trace(tmp_path / "x.sqlite", kernels=nodes)
    assert query(file, f"SELECT start, correlationId FROM {RUNTIME}") == [(15_000, 5)]


@pytest.mark.parametrize("where", ["api_calls", "launch"])
def test_a_call_of_ones_own_replaces_the_usual_one(tmp_path: Path, where: str) -> None:
    call = ApiCall("cuLaunchKernel", 100, 200, correlation=5)
    other = Kernel(12_000, 13_000, correlation=5)
    content: Content = (
        {"kernels": [Kernel(10_000, 11_000, correlation=5), other], "api_calls": [call]}
        if where == "api_calls"
        else {"kernels": [Kernel(10_000, 11_000, launch=call), other]}
    )
    file = make_trace(tmp_path / "x.sqlite", **content)
    assert query(
        file, f"SELECT start, end, eventClass, globalTid, correlationId FROM {RUNTIME}"
    ) == [(100, 200, 1, DEFAULT_THREAD, 5)]


def test_no_call_if_none_is_wanted(tmp_path: Path) -> None:
    file = make_trace(tmp_path / "x.sqlite", kernels=[Kernel(10, 20, launch=None)])
    assert RUNTIME not in layout_of(file)


def test_calls_run_on_the_thread_that_is_asked_for(tmp_path: Path) -> None:
    worker = DEFAULT_PROCESS | 77
    kernels = [Kernel(20_000, 30_000, thread=worker), Kernel(40_000, 50_000, process=RANK_1)]
    file = make_trace(tmp_path / "x.sqlite", kernels=kernels)
    threads = query(file, f"SELECT globalTid FROM {RUNTIME} ORDER BY start")
    assert threads == [(worker,), (main_thread(RANK_1),)]


def test_contradicting_ids_are_refused(tmp_path: Path) -> None:
    kernel = Kernel(10, 20, correlation=5, launch=ApiCall("cuLaunchKernel", 1, 2, correlation=6))
    with pytest.raises(ValueError, match="correlation 5, but 6"):
        make_trace(tmp_path / "x.sqlite", kernels=[kernel])


# What each version stores


@pytest.mark.parametrize(
    ("schema", "device", "stream"),
    [("2023.4", 1, 3), ("2024.6", 0, 2), ("2025.5", 4, 2), ("2026.2", 4, 3)],
)
def test_numbers_of_waits(tmp_path: Path, schema: str, device: int, stream: int) -> None:
    waits = [Sync(10, 20, "device_sync"), Sync(30, 40, "stream_sync", stream=13)]
    file = make_trace(tmp_path / "x.sqlite", schema=schema, syncs=waits)
    assert query(file, f"SELECT syncType, streamId, eventId FROM {SYNC}") == [
        (device, 0xFFFFFFFF, 0xFFFFFFFF),
        (stream, 13, 0xFFFFFFFF),
    ]


@pytest.mark.parametrize(("schema", "output"), [("2023.4", "OUTUPT"), ("2025.5", "OUTPUT")])
def test_export_parameters_are_spelled_as_in_the_version(
    tmp_path: Path, schema: str, output: str
) -> None:
    file = make_trace(tmp_path / "x.sqlite", schema=schema, lazy=False)
    settings: dict[str, str] = dict(query(file, "SELECT name, value FROM META_DATA_EXPORT"))
    assert f"EXPORT_PARAM_{output}_FILE" in settings
    assert settings["EXPORT_PARAM_LAZY"] == "false"


def test_settings_replace_ours(tmp_path: Path) -> None:
    file = make_trace(
        tmp_path / "x.sqlite",
        capture_settings=[
            ("CAPTURE_EVENT_TYPE", "Cuda"),
            ("CAPTURE_EVENT_TYPE", "OSRuntime"),
            ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
        ],
        export_settings=[("EXPORT_PARAM_TIME_SHIFT", "5")],
        system_env=[("CudaDriverVersion", "11020")],
    )

    def values(table: str, name: str) -> Rows:
        return query(file, f"SELECT name, value FROM {table} WHERE name LIKE '%{name}'")

    mode = "CUDA_GRAPH_TRACE_OPTIONS:MODE"
    shift = "EXPORT_PARAM_TIME_SHIFT"
    assert values("META_DATA_CAPTURE", "EVENT_TYPE") == [
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("CAPTURE_EVENT_TYPE", "OSRuntime"),
    ]
    assert values("META_DATA_CAPTURE", mode) == [(mode, "Node")]
    assert values("META_DATA_EXPORT", shift) == [(shift, "5")]
    assert values("TARGET_INFO_SYSTEM_ENV", "CudaDriverVersion") == [("CudaDriverVersion", "11020")]
    [(_, folder)] = values("TARGET_INFO_SYSTEM_ENV", "TargetInstallDir")
    assert "2025.5.2" in folder


def test_what_follows_from_the_work(tmp_path: Path) -> None:
    kernels = [
        Kernel(10_000, 20_000),
        Kernel(10_000, 90_000, process=RANK_1, device=1, context=2),
    ]
    file = make_trace(tmp_path / "x.sqlite", kernels=kernels)
    assert query(file, "SELECT duration FROM ANALYSIS_DETAILS") == [(90_000,)]
    assert query(file, "SELECT globalPid FROM PROCESSES") == [(DEFAULT_PROCESS,), (RANK_1,)]
    assert query(file, "SELECT id FROM TARGET_INFO_GPU") == [(0,), (1,)]
    contexts = "processId, deviceId, contextId, nullStreamId FROM TARGET_INFO_CUDA_CONTEXT_INFO"
    assert query(file, f"SELECT {contexts}") == [(1000, 0, 1, 7), (2000, 1, 2, 15)]
    assert query(file, "SELECT gpuId, cudaId, pid FROM TARGET_INFO_CUDA_DEVICE") == [
        (0, 0, 1000),
        (1, 1, 2000),
    ]


# Leaving out and adding


def test_tables_and_columns_left_out(tmp_path: Path) -> None:
    content: Content = {"kernels": [Kernel(10_000, 20_000, LONG)]}
    file = make_trace(
        tmp_path / "x.sqlite",
        omit_tables=["StringIds", "TARGET_INFO_GPU"],
        omit_columns=[(KERNEL, "correlationId"), (RUNTIME, "nameId"), (SYNC, "eventId")],
        **content,
    )
    tables = layout_of(file)
    assert not {"StringIds", "TARGET_INFO_GPU", SYNC} & set(tables)
    whole = layout_of(make_trace(tmp_path / "whole.sqlite", **content))
    assert tables[KERNEL] == [each for each in whole[KERNEL] if each[0] != "correlationId"]
    assert tables[RUNTIME] == [each for each in whole[RUNTIME] if each[0] != "nameId"]


def test_statements_run_at_the_end(tmp_path: Path) -> None:
    content: Content = {"kernels": [Kernel(10_000, 20_000), Kernel(30_000, 40_000)]}
    delete = f"DELETE FROM {KERNEL} WHERE start = 10000"
    one = make_trace(tmp_path / "a.sqlite", extra_sql=f"{delete}; CREATE TABLE t (x)", **content)
    two = make_trace(tmp_path / "b.sqlite", extra_sql=[delete, "CREATE TABLE t (x)"], **content)
    assert one.read_bytes() == two.read_bytes()
    assert query(one, f"SELECT start FROM {KERNEL}") == [(30_000,)]
    assert "t" in layout_of(one)


def test_raw_rows_are_completed(tmp_path: Path) -> None:
    file = make_trace(
        tmp_path / "x.sqlite",
        raw_rows={
            "OSRT_API": [{"start": 1, "end": 2, "nameId": "poll"}],
            "CUDA_CALLCHAINS": [{"id": 1, "symbol": "main", "stackDepth": 3}],
        },
    )
    assert query(
        file, "SELECT start, value, returnValue FROM OSRT_API JOIN StringIds ON id = nameId"
    ) == [(1, "poll", 0)]
    chain = "c.id, value, module, originalIP, stackDepth"
    assert query(
        file, f"SELECT {chain} FROM CUDA_CALLCHAINS AS c JOIN StringIds AS s ON s.id = symbol"
    ) == [(1, "main", 0, None, 3)]


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "schema": (lambda file: make_trace(file, schema="2021.1"), "no schema '2021.1'"),
    "kind": (lambda file: make_directory_export(file, kind="hdf"), "no kind 'hdf'"),  # type: ignore[arg-type]
    "table": (lambda file: make_trace(file, omit_tables=["KERNEL"]), "no table 'KERNEL'"),
    "column": (lambda file: make_trace(file, omit_columns=[(KERNEL, "x")]), f"'x' in {KERNEL}"),
    "raw column": (
        lambda file: make_trace(file, raw_rows={KERNEL: [{"x": 1}]}),
        f"'x' in {KERNEL}",
    ),
    "order of times": (lambda _: Kernel(20, 10), "before its start"),
    "no integer": (lambda _: Kernel(0, 1.5), "1.5 is no integer"),  # type: ignore[arg-type]
    "correlation": (lambda _: Kernel(0, 1, correlation=1 << 32), "does not fit into 32 bits"),
    "direction": (lambda file: make_trace(file, copies=[Copy(0, 1, "up")]), "no direction 'up'"),  # type: ignore[arg-type]
    "event": (lambda _: Sync(0, 1, "stream_wait"), "stream_wait with event_id=None"),
}


@pytest.mark.parametrize(("build", "message"), WRONG.values(), ids=WRONG)
def test_mistakes_are_refused(
    tmp_path: Path, build: Callable[[Path], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build(tmp_path / "x")
    assert not (tmp_path / "x").exists()


# Folders


def read_folder(folder: Path) -> dict[str, pl.DataFrame]:
    read = {".parquet": pl.read_parquet, ".arrow": pl.read_ipc_stream}
    return {file.stem: read[file.suffix](file) for file in sorted(folder.iterdir())}


def as_sqlite_stores(value: object) -> object:
    """Wrap what is beyond SQLite's signed integers."""
    if isinstance(value, int) and value >= 1 << 63:
        return value - (1 << 64)
    return value


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("kind", ["parquetdir", "arrowdir"])
def test_folders_hold_what_the_file_holds(tmp_path: Path, kind: Any, lazy: bool) -> None:
    schema = "2025.5"
    file = make_trace(tmp_path / "x.sqlite", schema=schema, lazy=lazy, **EVERYTHING)
    folder = make_directory_export(
        tmp_path / "x", kind=kind, schema=schema, lazy=lazy, **EVERYTHING
    )
    frames = read_folder(folder)
    tables = layout_of(file)
    assert frames.keys() == tables.keys()
    for name, frame in frames.items():
        assert frame.columns == [column for column, *_ in tables[name]]
        rows = [tuple(map(as_sqlite_stores, row)) for row in frame.rows()]
        assert rows == query(file, f'SELECT * FROM "{name}" ORDER BY rowid'), name


@pytest.mark.parametrize(
    ("kind", "correlation"), [("parquetdir", pl.Int64), ("arrowdir", pl.UInt32)]
)
def test_types_in_folders(tmp_path: Path, kind: Any, correlation: type[pl.DataType]) -> None:
    frames = read_folder(make_directory_export(tmp_path / "x", kind=kind, **EVERYTHING))
    kernels = frames[KERNEL].schema
    assert kernels["correlationId"] == correlation
    assert kernels["globalPid"] == kernels["demangledName"] == pl.UInt64
    assert kernels["gridX"] == frames["StringIds"].schema["id"] == pl.Int32
    assert frames["TARGET_INFO_GPU"].schema["isDiscrete"] == pl.Boolean
    assert frames["NVTX_EVENTS"].schema["textId"] == correlation


@pytest.mark.parametrize("kind", ["parquetdir", "arrowdir"])
def test_folders_are_the_same_bytes(tmp_path: Path, kind: Any) -> None:
    one, two = (
        make_directory_export(tmp_path / name, kind=kind, **EVERYTHING) for name in ("a", "b")
    )
    files = sorted(file.name for file in one.iterdir())
    assert files == sorted(file.name for file in two.iterdir())
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in files)


@pytest.mark.parametrize("kind", ["parquetdir", "arrowdir"])
def test_folders_of_every_schema(tmp_path: Path, kind: Any) -> None:
    for schema in SCHEMAS:
        folder = make_directory_export(tmp_path / schema, kind=kind, schema=schema, **EVERYTHING)
        frames = read_folder(folder)
        assert frames[KERNEL].height == 4
        # nsys 2023.4 left the records of events out of its folders
        expected = SCHEMAS[schema].at_least("3.11.1")
        assert ("CUPTI_ACTIVITY_KIND_CUDA_EVENT" in frames) is expected


@pytest.mark.parametrize("kind", ["parquetdir", "arrowdir"])
def test_folders_leave_out_what_is_asked(tmp_path: Path, kind: Any) -> None:
    folder = make_directory_export(
        tmp_path / "x",
        kind=kind,
        omit_tables=["StringIds"],
        omit_columns=[(KERNEL, "correlationId")],
        **EVERYTHING,
    )
    frames = read_folder(folder)
    assert "StringIds" not in frames
    assert "correlationId" not in frames[KERNEL].columns


@pytest.mark.parametrize("kind", ["parquetdir", "arrowdir"])
def test_folders_keep_text_that_is_not_utf8(tmp_path: Path, kind: Any) -> None:
    folder = make_directory_export(tmp_path / "x", kind=kind, kernels=[Kernel(0, 1, b"\xff\xfe")])
    [file] = folder.glob("StringIds.*")
    assert b"\xff\xfe" in file.read_bytes()
