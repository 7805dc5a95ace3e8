"""What the reader makes of the rows of every version; the traps that exports set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import overlapaudit as oa
from overlapaudit.model.tables import TableName
from tests.tracebuilder import (
    DEFAULT_PROCESS,
    DEFAULT_THREAD,
    NO_CORRELATION,
    NOT_APPLICABLE,
    SCHEMAS,
    ApiCall,
    Context,
    Copy,
    EventRecord,
    GraphCreation,
    GraphLaunch,
    GraphNode,
    Kernel,
    MemoryEvent,
    Memset,
    Metric,
    ProfilerOverhead,
    Range,
    Stream,
    Sync,
    Thread,
    global_pid,
    global_tid,
    graph_node_id,
    main_thread,
    make_trace,
    mark,
    nvtx_domain,
)

Opened = Callable[..., oa.Trace]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Open a trace with this content."""
    traces: list[oa.Trace] = []

    def make(**content: Any) -> oa.Trace:
        path = make_trace(tmp_path / f"{len(traces)}.sqlite", **content)
        traces.append(oa.open_trace(path))
        return traces[-1]

    yield make
    for trace in traces:
        trace.close()


FULL: dict[str, Any] = {
    "kernels": [
        Kernel(10_000, 20_000, name="gemm_a"),
        Kernel(21_000, 30_000, name="gemm_b", stream=13),
    ],
    "copies": [Copy(12_000, 26_000, "h2d", 4096, stream=14, src_kind="pageable")],
    "memsets": [Memset(31_000, 31_500, 64)],
    "event_records": [EventRecord(6_000, 6_010, event_id=3, stream=14)],
    "syncs": [
        Sync(6_500, 6_510, "stream_wait", event_id=3, stream=13),
        Sync(7_000, 32_000, "stream_sync", stream=13),
        Sync(32_000, 33_000, "device_sync"),
        Sync(33_000, 33_100, "event_sync", event_id=3),
        Sync(33_200, 33_210, "event_query", event_id=3),
    ],
    "ranges": [Range("step", 0, 40_000, payload=7), Range("model", 10, 9_000, registered=True)],
    "memory_events": [MemoryEvent(100, "alloc", 256), MemoryEvent(200, "free", 256)],
    "streams": [Stream(13, "non_blocking", priority=-5), Stream(14, "blocking")],
    "profiler_overheads": [ProfilerOverhead(50, 60)],
    "threads": [Thread("scheduler", DEFAULT_THREAD)],
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("lazy", [True, False])
def test_every_version_gives_the_same_tables(opened: Opened, schema: str, lazy: bool) -> None:
    reference = opened(schema="2025.5", **FULL)
    trace = opened(schema=schema, lazy=lazy, **FULL)
    for name in TableName:
        frame, expected = trace.table(name), reference.table(name)
        assert frame.schema == pl.Schema(name.schema), name
        if name in (TableName.DEVICES, TableName.MPI_RANKS, TableName.GPUS):
            continue  # not every version has them
        assert frame.equals(expected), name
    assert trace.identity.schema_version == SCHEMAS[schema].text
    assert trace.identity.tool_version == SCHEMAS[schema].exporter


def test_kinds_of_waits_come_from_the_name_not_the_number(opened: Opened) -> None:
    kinds = ["stream_wait", "event_sync", "stream_sync", "device_sync", "event_query"]
    for number in (0, 1, 2, 3, 4, 77):
        trace = opened(
            syncs=[
                Sync(
                    10 * place,
                    10 * place + 5,
                    kind,  # type: ignore[arg-type]
                    event_id=4 if "event" in kind or kind == "stream_wait" else None,
                    sync_type=number,
                )
                for place, kind in enumerate(kinds)
            ]
        )
        found = trace.waits["kind"].to_list()
        assert found == ["stream_wait", "event_sync", "stream_sync", "device_sync", "query"]


def test_waits_without_their_call_are_told_by_their_fields(opened: Opened) -> None:
    trace = opened(
        syncs=[
            Sync(0, 5, "stream_wait", event_id=4, stream=9, launch=None),
            Sync(10, 15, "stream_sync", stream=9, launch=None),
            Sync(20, 25, "device_sync", launch=None),
            Sync(30, 35, "event_sync", event_id=4, launch=None),
        ]
    )
    assert trace.waits["kind"].to_list() == ["stream_wait", "stream_sync", "device_sync", "unknown"]
    assert trace.waits["stream"].to_list() == [9, 9, None, None]
    assert trace.waits["event"].to_list() == [4, None, None, 4]


def test_not_applicable_is_null(opened: Opened) -> None:
    trace = opened(
        syncs=[
            Sync(0, 5, "device_sync", event_sync_id=NOT_APPLICABLE),
            Sync(6, 7, "event_sync", event_id=NOT_APPLICABLE, event_sync_id=0),
        ]
    )
    assert trace.waits["event"].to_list() == [None, None]
    assert trace.waits["event_sync"].to_list() == [None, None]
    assert trace.waits["stream"].to_list() == [None, None]


def test_launches_join_on_process_and_correlation(opened: Opened) -> None:
    one, two = global_pid(1001), global_pid(1002)
    trace = opened(
        kernels=[
            Kernel(100, 110, process=two, correlation=7, name="a", launch=None),
            Kernel(200, 210, process=one, correlation=7, name="b", launch=None),
            Kernel(300, 310, process=one, correlation=8, name="c", launch=None),
            Kernel(400, 410, process=one, correlation=NO_CORRELATION, name="d", launch=None),
        ],
        api_calls=[
            ApiCall("cudaLaunchKernel_v7000", 50, 60, main_thread(one), correlation=7),
            ApiCall("cuLaunchKernel", 40, 45, main_thread(two), correlation=7),
        ],
    )
    calls = trace.api_calls
    joined = [None if row is None else calls["process"][row] for row in trace.operations["api_row"]]
    assert joined == [two, one, None, None]
    assert calls["kind"].to_list() == ["launch", "launch"]
    assert calls["name"].to_list() == ["cuLaunchKernel", "cudaLaunchKernel"]


def test_one_graph_launch_has_many_kernels(opened: Opened) -> None:
    trace = opened(
        kernels=[
            Kernel(1000 + n, 1001 + n, correlation=5, graph_node=graph_node_id(3, n))
            for n in range(266)
        ],
        graph_nodes=[GraphNode(graph_node_id(3, n), graph_node_id(1, n)) for n in range(266)],
    )
    assert trace.api_calls.height == 1
    assert trace.operations["api_row"].to_list() == [0] * 266
    nodes = trace.table(TableName.GRAPH_NODES)
    assert nodes["original"].to_list() == [graph_node_id(1, n) for n in range(266)]


@pytest.mark.parametrize("schema", ["2023.4", "2024.2", "2025.5"])
def test_the_table_of_graph_nodes_by_either_name(opened: Opened, schema: str) -> None:
    trace = opened(
        schema=schema,
        graph_nodes=[GraphNode(graph_node_id(2, 1))],
        graph_creations=[GraphCreation(9), GraphCreation(10)],
    )
    assert trace.table(TableName.GRAPH_NODES)["node"].to_list() == [graph_node_id(2, 1)]


def test_backtrace_rows_are_not_second_calls(opened: Opened) -> None:
    trace = opened(
        kernels=[Kernel(100, 110, correlation=3)],
        api_calls=[ApiCall("cudaLaunchKernel", 10, 20, correlation=3, event_class=67)],
    )
    assert trace.api_calls["name"].to_list() == []  # the only row is the backtrace's


def test_streams_and_their_priorities(opened: Opened) -> None:
    trace = opened(
        kernels=[Kernel(0, 1)],
        contexts=[Context(1), Context(2)],
        streams=[
            Stream(13, "non_blocking", priority=-5),
            Stream(13, "blocking", priority=-1, context=2),
            Stream(20, "unknown"),
        ],
    )
    streams = trace.table(TableName.STREAMS).sort("context", "stream")
    assert streams.select("context", "stream", "priority", "blocking", "is_default").rows() == [
        (1, 7, None, None, True),
        (1, 13, -5, False, False),
        (1, 20, 0, None, False),
        (2, 13, -1, True, False),
        (2, 15, None, None, True),
    ]


def test_ranges(opened: Opened) -> None:
    other = global_tid(1000, 77)
    trace = opened(
        duration_ns=5_000,
        ranges=[
            nvtx_domain("NCCL", 4),
            Range("plain", 0, 10),
            Range("registered", 1, 9, registered=True, domain=4, payload=-3),
            Range("unnamed domain", 2, 8, domain=5, payload=2.5),
            Range(None, 3, 7, payload=(1 << 63) + 1, payload_type="uint64"),
            Range("request", 4, 60, range_id=11, end_thread=other, category=2),
            Range("never closed", 5, None),
            Range("open at the end", 6, 5_000),
            mark("here", 7),
        ],
    )
    rows = trace.ranges.select("text", "domain", "start_ns", "end_ns", "kind").rows()
    assert rows == [
        ("plain", None, 0, 10, "push_pop"),
        ("registered", "NCCL", 1, 9, "push_pop"),
        ("unnamed domain", None, 2, 8, "push_pop"),
        ("", None, 3, 7, "push_pop"),
        ("request", None, 4, 60, "start_end"),
        ("never closed", None, 5, None, "push_pop"),
        ("open at the end", None, 6, None, "push_pop"),
        ("here", None, 7, None, "mark"),
    ]
    assert trace.ranges["payload"].to_list()[:4] == [None, -3, None, (1 << 63) + 1 - (1 << 64)]
    assert trace.ranges["payload_real"].to_list()[2] == 2.5
    request = trace.ranges.row(4, named=True)
    assert request["end_thread"] == other
    assert (request["category"], request["range_id"]) == (2, 11)
    assert trace.ranges["end_thread"].to_list()[0] == DEFAULT_THREAD


def test_metrics_have_names_and_no_wrapped_values(opened: Opened) -> None:
    trace = opened(
        metrics=[
            Metric(100, "SMs Active", 55),
            Metric(100, "DRAM Read", -7, gpu=1),
            Metric(200, "SMs Active", 0),
        ]
    )
    assert trace.metrics.rows() == [
        (0, 100, "SMs Active", 55),
        (1, 100, "DRAM Read", None),
        (0, 200, "SMs Active", 0),
    ]


def test_memory_events(opened: Opened) -> None:
    trace = opened(
        memory_events=[MemoryEvent(5, "alloc", 64, 0x10), MemoryEvent(9, "free", 64, 0x10)]
    )
    rows = trace.memory_events.select("process", "time_ns", "bytes", "address", "frees").rows()
    assert rows == [
        (DEFAULT_PROCESS, 5, 64, 16, False),
        (DEFAULT_PROCESS, 9, 64, 16, True),
    ]


def test_copies_know_their_memory(opened: Opened) -> None:
    trace = opened(copies=[Copy(0, 1, "h2d", 10, src_kind="pageable"), Copy(2, 3, "d2h", 20)])
    rows = trace.operations.select("bytes", "source", "destination", "direction").rows()
    assert rows == [(10, "pageable", "device", "h2d"), (20, "device", "pinned", "d2h")]


@pytest.mark.parametrize("settings", [{"EXPORT_PARAM_TIME_SHIFT": "-1000"}])
def test_times_count_from_the_session_start(opened: Opened, settings: dict[str, str]) -> None:
    trace = opened(
        kernels=[Kernel(4_000, 5_000), Kernel(0, 0)],
        ranges=[Range("a", 100, 200)],
        export_settings=list(settings.items()),
    )
    assert trace.operations["start_ns"].to_list() == [5_000, None]
    assert trace.operations["end_ns"].to_list() == [6_000, None]
    assert trace.ranges["start_ns"].to_list() == [1_100]
    assert trace.api_calls["start_ns"].to_list()[-1] == 0


def test_times_in_utc_count_from_the_session_start(opened: Opened) -> None:
    begin = 1_800_000_000_000_000_000
    trace = opened(
        kernels=[Kernel(begin + 4_000, begin + 5_000)],
        utc_start_ns=begin,
        export_settings=[("EXPORT_PARAM_TIME_NORMALIZE", "true")],
    )
    assert trace.operations["start_ns"].to_list() == [4_000]


def test_graph_replays_are_operations(opened: Opened) -> None:
    trace = opened(graph_launches=[GraphLaunch(10_000, 20_000, graph=6)])
    row = trace.operations.row(0, named=True)
    assert (row["kind"], row["lane"], row["graph"], row["api_row"]) == ("graph", "graph", 6, 0)


def test_names_that_are_lost_do_not_lose_the_row(opened: Opened) -> None:
    trace = opened(
        kernels=[Kernel(10_000, 20_000, name="a"), Kernel(30_000, 40_000, name="b")],
        extra_sql="DELETE FROM StringIds WHERE value IN ('b', 'cudaLaunchKernel_v7000')",
    )
    names = trace.operations["name"].to_list()
    assert names[0] == "a"
    assert names[1].startswith("kernel#")
    assert trace.api_calls.height == 2
    assert trace.api_calls["kind"].to_list() == ["other", "other"]


@contextmanager
def _both_ways(path: Path) -> Iterator[tuple[Any, Any]]:
    from overlapaudit.reader.sqlite_source import SqliteSource

    decoded, driven = SqliteSource(path, decode_from_bytes=0), SqliteSource(path)
    yield decoded, driven
    decoded.close()
    driven.close()


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
@pytest.mark.parametrize("schema", ["2022.2", "2025.5"])
def test_decoder_and_driver_read_the_same(tmp_path: Path, page_size: int, schema: str) -> None:
    from overlapaudit.reader import schema as tables

    many = [
        Kernel(n * 1000, n * 1000 + 900, name=f"k{n % 7}", stream=n % 3, correlation=n << n % 20)
        for n in range(1, 3000)
    ]
    path = make_trace(
        tmp_path / "t.sqlite",
        schema=schema,
        page_size=page_size,
        kernels=[*many, Kernel(-(1 << 62), -1, correlation=NO_CORRELATION)],
        copies=[Copy(0, 5, "h2d", 1 << 62, correlation=1 << 31)],
        ranges=[
            # Rows of all lengths: some go on behind their page.
            Range("x" * (n * 37 % 9000), n, n + 1, payload=n / 3 if n % 2 else n)
            for n in range(200)
        ],
    )
    with _both_ways(path) as (decoded, driven):
        for table in (tables.KERNEL, tables.MEMCPY, tables.RUNTIME, tables.NVTX, tables.STRINGS):
            one, other = decoded.read(table), driven.read(table)
            assert one.height > 0
            assert one.equals(other), table


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'never' WHERE rowid = 2",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = x'00ff' WHERE rowid = 2",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 1.5 WHERE rowid = 2",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN extra INTEGER DEFAULT 3",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN greenContextId",
        "CREATE TABLE t AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL;"
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;"
        "ALTER TABLE t RENAME TO CUPTI_ACTIVITY_KIND_KERNEL",
        "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % 3 = 0; VACUUM",
        "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL",
    ],
)
def test_unusual_tables_are_read_all_the_same(tmp_path: Path, change: str) -> None:
    from overlapaudit.reader import schema as tables

    kernels = [Kernel(n * 10, n * 10 + 9) for n in range(1, 50)]
    path = make_trace(tmp_path / "t.sqlite", kernels=kernels, extra_sql=change)
    with _both_ways(path) as (decoded, driven):
        one, other = decoded.read(tables.KERNEL), driven.read(tables.KERNEL)
        assert one.equals(other)
        assert one["start"].dtype == pl.Int64


def test_misfits_become_null(opened: Opened) -> None:
    trace = opened(
        kernels=[Kernel(10, 20), Kernel(30, 40)],
        extra_sql="UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'never' WHERE start = 10",
    )
    assert trace.operations["start_ns"].to_list() == [None, 30]
    assert trace.operations["end_ns"].to_list() == [None, 40]
