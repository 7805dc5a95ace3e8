"""What users of profilers ran into, answered: reading exports (A), joining and attribution (B).

The names carry the numbers of the cases; each docstring says where the symptom was reported.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import overlapaudit as oa
from overlapaudit.model.tables import API_CALLS, OPERATIONS, RANGES, conform
from overlapaudit.model.window import WHOLE_TRACE
from overlapaudit.reader import schema
from overlapaudit.reader.sqlite_source import SqliteSource
from overlapaudit.spans.launches import by_launch
from overlapaudit.spans.nesting import numbered
from overlapaudit.spans.span_table import spans_of
from overlapaudit_reports.html.page import html_text
from tests.cli import conftest
from tests.cli.conftest import Run
from tests.support import audit_file, audit_of, finding, lanes, only_device
from tests.tracebuilder import (
    DEFAULT_PROCESS,
    DEFAULT_THREAD,
    NOT_APPLICABLE,
    ApiCall,
    Kernel,
    ProfilerOverhead,
    Range,
    Sync,
    global_pid,
    global_tid,
    main_thread,
    make_directory_export,
    make_trace,
    nvtx_domain,
)

run = conftest.run

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
ONE = Kernel(10_000, 20_000, GEMM)
OTHER = global_pid(77)
WORKER = global_tid(1000, 7)
OURS = nvtx_domain("overlapaudit", 1)


def launch(start_ns: int, thread: int | None = None, correlation: int | None = None) -> ApiCall:
    return ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + 100, thread, correlation)


def step(start_ns: int, end_ns: int | None, thread: int = DEFAULT_THREAD) -> Range:
    return Range("iteration.step", start_ns, end_ns, thread=thread, domain=1)


def phases(document: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Give (count, host, span, busy, operations) of each level and phase."""
    keys = ("count", "host_ns", "span_ns", "busy_ns", "operations")
    spans = {f"{one['level']}.{one['phase']}": one for one in document["spans"]}
    return {name: tuple(one[key] for key in keys) for name, one in spans.items()}


def lacking(document: dict[str, Any]) -> dict[str, str]:
    """Give what records each thing that was not recorded, and can be."""
    gaps = document["coverage"]["not_recorded"]
    return {gap["what"]: gap["capture_with"] for gap in gaps if gap["capture_with"]}


def test_a1_an_absent_table_is_not_recorded_and_no_error(run: Run, tmp_path: Path) -> None:
    """nvprof-tools#3: "no such table"."""
    trace = make_trace(
        tmp_path / "t.sqlite", kernels=[ONE], omit_tables=["CUPTI_ACTIVITY_KIND_RUNTIME"]
    )
    done = run("audit", trace, "--json", "-")
    assert (done.status, done.err) == (0, "")
    document = json.loads(done.out)
    assert only_device(document)["busy_ns"] == 10_000
    assert document["coverage"]["launches"] is None
    assert lacking(document)["CUDA API calls"] == "--trace=cuda"


def test_a2_without_ranges_the_rest_is_answered(run: Run, tmp_path: Path) -> None:
    """nsys-ai#291: a capture without NVTX made the analysis exit 1."""
    trace = make_trace(
        tmp_path / "t.sqlite", kernels=[ONE], capture_settings=[("CAPTURE_EVENT_TYPE", "Cuda")]
    )
    document = json.loads(run("audit", trace, "--json", "-").out)
    assert only_device(document)["busy_ns"] == 10_000
    assert document["spans"] is None
    done = run("doctor", trace)
    assert done.status == 0
    assert "NVTX ranges: the export holds none\n    record with --trace=cuda,nvtx\n" in done.out


def test_a3_a_table_with_a_suffix_has_its_ranges() -> None:
    """nsys-ai#291, #294: "no ranges" on a fully annotated trace."""
    document = audit_of(
        kernels=[ONE],
        ranges=[OURS, step(0, 9_000)],
        extra_sql="ALTER TABLE NVTX_EVENTS RENAME TO NVTX_EVENTS_V2",
    )
    assert phases(document) == {"iteration.step": (1, 9_000, 10_000, 10_000, 1)}


def test_a3_no_range_and_no_recording_are_two_answers() -> None:
    assert lacking(audit_of(kernels=[ONE]))["NVTX ranges"] == "markers in the program"
    not_traced = audit_of(kernels=[ONE], capture_settings=[("CAPTURE_EVENT_TYPE", "Cuda")])
    assert lacking(not_traced)["NVTX ranges"] == "--trace=cuda,nvtx"
    unknown = audit_of(kernels=[ONE], ranges=[Range("whatever", 0, 9_000)])
    assert "NVTX ranges" not in lacking(unknown)
    assert unknown["spans"] == []


def test_a4_suffixes_are_numbers_and_names_are_whole() -> None:
    """nsys-ai#304, #306: _V10 below _V3, MEMCPY2 a newer MEMCPY."""
    document = audit_of(
        kernels=[ONE],
        extra_sql=[
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V10",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V3 AS "
            "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL_V10",
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL_V3 SET end = 90000",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY2 AS "
            "SELECT *, 1 AS copyKind FROM CUPTI_ACTIVITY_KIND_KERNEL_V3",
        ],
    )
    assert lanes(only_device(document)) == {"compute": 10_000}


def test_a5_the_schema_version_is_read_and_printed(run: Run, tmp_path: Path) -> None:
    """flameox#190: the schema guessed, the version never read."""
    trace = make_trace(tmp_path / "t.sqlite", schema="2024.2", kernels=[ONE])
    assert "nsys 2024.2.3.38, schema 3.11.1, session" in run("audit", trace).out
    document = json.loads(run("audit", trace, "--json", "-").out)
    assert document["inputs"][0]["schema_version"] == "3.11.1"


def test_a6_ranges_without_the_column_of_registered_text() -> None:
    """nsys-ai#101: no textId in some exports."""
    document = audit_of(
        kernels=[ONE],
        ranges=[OURS, step(0, 9_000)],
        omit_columns=[("NVTX_EVENTS", "textId")],
    )
    assert phases(document) == {"iteration.step": (1, 9_000, 10_000, 10_000, 1)}


def test_a6_name_without_string_row_keeps_the_kernel() -> None:
    """nsys-ai#90: an inner join with StringIds loses it."""
    document = audit_of(
        kernels=[Kernel(10_000, 20_000, "lost")],
        extra_sql="UPDATE StringIds SET id = 4242 WHERE value = 'lost'",
    )
    assert lanes(only_device(document)) == {"compute": 10_000}
    (name,) = finding(document, "OA008")["evidence"]["longest"]
    assert name.removeprefix("kernel#").isdecimal()


def test_a7_the_column_end_is_read_in_every_form(tmp_path: Path) -> None:
    """nsys-ai#91: `end` is a word of SQL, and engines quote it each in their own way."""
    sqlite = make_trace(tmp_path / "t.sqlite", schema="2024.2", kernels=[ONE])
    forms = [
        sqlite,
        make_directory_export(tmp_path / "p", kind="parquetdir", kernels=[ONE]),
        make_directory_export(tmp_path / "a", kind="arrowdir", kernels=[ONE]),
    ]
    assert [only_device(audit_file(form))["busy_ns"] for form in forms] == [10_000] * 3
    for from_bytes in (0, 1 << 40):  # pages decoded here, and statements to the driver
        source = SqliteSource(sqlite, decode_from_bytes=from_bytes)
        kernels = source.read(schema.KERNEL)
        source.close()
        assert kernels is not None
        assert kernels["end"].to_list() == [20_000]


def test_a8_numbers_that_stand_for_nothing_are_null(tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(10_000, 20_000, GEMM, stream=NOT_APPLICABLE)],
        syncs=[
            Sync(0, 5, "event_sync", event_id=NOT_APPLICABLE, event_sync_id=NOT_APPLICABLE),
            Sync(6, 9, "device_sync", event_sync_id=0),
        ],
    )
    with oa.open_trace(path) as trace:
        assert trace.operations["stream"].to_list() == [None]
        waits = trace.waits.select("stream", "event", "event_sync")
    assert waits.rows() == [(None, None, None), (None, None, None)]
    assert only_device(audit_file(path))["busy_ns"] == 10_000


def test_a9_the_file_and_its_folder_stay_as_they_are(run: Run, tmp_path: Path) -> None:
    """nsys-ai#387: indexes in the user's file, litter beside it."""
    trace = make_trace(tmp_path / "t.sqlite", kernels=[ONE], ranges=[OURS, step(0, 9_000)])

    def state() -> tuple[bytes, int, list[str]]:
        content = hashlib.sha256(trace.read_bytes()).digest()
        return content, trace.stat().st_mtime_ns, sorted(p.name for p in tmp_path.iterdir())

    before = state()
    assert run("audit", trace).status == run("doctor", trace).status == 0
    assert state() == before


def test_a10_a_million_ranges_are_joined_in_seconds() -> None:
    """nsys-ai#257, #259: a join that never finishes on 1.25 million ranges."""
    ranges, kernels = 1_250_000, 250_000
    of_ranges = pl.DataFrame({"start_ns": pl.int_range(ranges, eager=True) * 10}).with_columns(
        kind=pl.lit("push_pop"),
        thread=pl.lit(1),
        domain_id=pl.lit(0),
        end_ns=pl.col("start_ns") + 9,
    )
    # Every fifth range launches a kernel, which runs long after.
    launched = pl.DataFrame({"start_ns": pl.int_range(kernels, eager=True) * 50 + 5}).with_columns(
        thread=pl.lit(1), end_ns=pl.col("start_ns") + 1
    )
    work = pl.DataFrame({"start_ns": pl.int_range(kernels, eager=True) * 10 + 10**9}).with_columns(
        end_ns=pl.col("start_ns") + 7, api_row=pl.int_range(pl.len())
    )
    calls, operations = conform(launched, API_CALLS), conform(work, OPERATIONS)
    begun = time.perf_counter()
    found = spans_of(
        numbered(conform(of_ranges, RANGES)), by_launch(operations, calls), operations, WHOLE_TRACE
    )
    assert time.perf_counter() - begun < 30
    assert (found.height, found["busy_ns"].sum()) == (kernels, 7 * kernels)
    assert found["range_row"].to_list()[:3] == [0, 5, 10]


def test_a11_reports_do_not_grow_with_the_trace(tmp_path: Path) -> None:
    """kineto#595, xprof#720, nsys-ai#490: files that no browser opens."""
    kernels = [Kernel(10 * n, 10 * n + 5, GEMM, launch=None) for n in range(1, 26_001)]
    path = make_trace(tmp_path / "t.sqlite", kernels=kernels)
    with oa.open_trace(path) as trace:
        audit = oa.audit(trace)
        page = html_text(audit, [trace])
    assert len(audit.to_json()) < 10_000
    assert len(page.encode()) < 8_000_000  # most of it is the script that draws
    assert "26,000 operations and" in page
    assert "share one with their neighbours" in page


def test_a12_hostile_names_are_escaped(run: Run, tmp_path: Path) -> None:
    """pytorch#130622: control characters break the JSON; nsys-ai#387: templates break tables."""
    names = ['say "hi" <b>\x1b[31m\x00\n', "gem_" + "tuple<int, " * 40 + ">" * 40]
    kernels = [Kernel(10_000 * n, 10_000 * n + 9_000, name) for n, name in enumerate(names, 1)]
    trace = make_trace(tmp_path / "t.sqlite", kernels=kernels)
    document = json.loads(run("audit", trace, "--json", "-").out)
    assert finding(document, "OA008")["evidence"]["longest"] == sorted(names)
    text = run("audit", trace).out
    assert r'say "hi" <b>\x1b[31m\x00\n' in text
    assert all(line.isprintable() and len(line) <= 80 for line in text.split("\n"))


def test_a13_a_capture_that_was_not_finalised_is_named(run: Run, tmp_path: Path) -> None:
    """NeMo-RL#4090: killed workers leave a stream without a report."""
    path = tmp_path / "rank1.qdstrm"
    path.write_bytes(b"QDSTREAM")
    done = run("audit", path)
    assert (done.status, done.out) == (3, "")
    assert done.complaint.startswith("rank1.qdstrm: the capture was not finalised")


def test_a14_a_process_whose_work_is_missing_is_named(run: Run, tmp_path: Path) -> None:
    """vllm#5132, #20959: kernels of rank 0 alone, for the others were forked."""
    trace = make_trace(
        tmp_path / "t.sqlite", kernels=[ONE], api_calls=[launch(0, main_thread(OTHER))]
    )
    found = finding(audit_file(trace), "OA007")
    assert (found["severity"], found["where"]["process"]) == ("warning", OTHER)
    assert found["evidence"] == {"api_calls": 1, "launches": 1}
    text = run("audit", trace).out
    assert "OA007 process-without-gpu-work  (pid 77)" in text
    assert "spawn" in text
    assert "--trace-fork-before-exec=true" in text


def test_a14_an_empty_profile_is_an_error_not_a_healthy_trace() -> None:
    """vllm#10708: an empty profile."""
    document = audit_of(api_calls=[launch(0)])
    found = finding(document, "OA001")
    assert found["severity"] == "error"
    assert found["evidence"]["launches"] == 1
    assert "spawn" in found["next_step"]
    assert document["devices"] is None


def test_a15_time_in_the_profiler_is_said() -> None:
    """Megatron-Bridge's recipes: the export itself says how far it can be trusted."""
    document = audit_of(kernels=[ONE], profiler_overheads=[ProfilerOverhead(12_000, 15_000)])
    evidence = finding(document, "OA006")["evidence"]
    assert evidence == {"profiler_overhead_ns": 3_000, "window_ns": 10_000}


def test_a16_one_process_id_in_two_containers_is_two_processes() -> None:
    """firefox-devtools/profiler#3351: processes of one id are merged."""
    one, two = global_pid(1000, vm=1), global_pid(1000, vm=2)
    document = audit_of(
        kernels=[
            Kernel(10_000, 20_000, GEMM, process=one, correlation=1),
            Kernel(12_000, 30_000, GEMM, process=two, correlation=1),
        ]
    )
    devices = [(d["process"], d["rank"], d["busy_ns"]) for d in document["devices"]]
    assert devices == [(one, 0, 10_000), (two, 1, 18_000)]


def test_b1_launches_join_within_their_process() -> None:
    """A correlation id counts within a process: by it alone rank 1's step gets rank 0's kernel."""
    document = audit_of(
        kernels=[
            Kernel(10_000, 20_000, GEMM, correlation=7, launch=None),
            Kernel(30_000, 70_000, GEMM, process=OTHER, correlation=7, launch=launch(5_000)),
        ],
        ranges=[OURS, nvtx_domain("overlapaudit", 1, process=OTHER),
                step(0, 9_000, main_thread(OTHER))],
    )  # fmt: skip
    coverage = document["coverage"]
    assert (coverage["operations"], coverage["operations_with_launch"]) == (2, 1)
    assert finding(document, "OA005")["evidence"]["operations_without_launch"] == 1
    assert phases(document) == {"iteration.step": (1, 9_000, 40_000, 40_000, 1)}


def test_b2_one_name_in_two_ranks_is_two_places() -> None:
    """nsys-ai#590, #597: "occurrence 3" was a rank, not a time."""
    threads = [main_thread(DEFAULT_PROCESS), main_thread(OTHER)]
    document = audit_of(
        kernels=[
            Kernel(10_000, 100_000, GEMM, process=process, launch=launch(1_000, thread))
            for process, thread in zip((DEFAULT_PROCESS, OTHER), threads, strict=True)
        ],
        syncs=[
            Sync(2_000, 101_000, "device_sync", process=process)
            for process in (DEFAULT_PROCESS, OTHER)
        ],
        ranges=[Range("sampler", 0, 200_000, thread=thread) for thread in threads],
    )
    sites = [(one["process"], one["span"], one["count"]) for one in document["hidden_syncs"]]
    assert sorted(sites) == [(OTHER, "sampler", 1), (DEFAULT_PROCESS, "sampler", 1)]
    where = [one["where"] for one in document["findings"] if one["code"] == "OA502"]
    assert {(one["rank"], one["process"]) for one in where} == {(0, OTHER), (1, DEFAULT_PROCESS)}


def test_b3_start_end_ranges_have_their_work() -> None:
    """nsys-ai#307, #314: eventType 60 silently gave no attribution."""
    crossing = Range("iteration.step", 0, 9_000, domain=1, range_id=5, end_thread=WORKER)
    document = audit_of(kernels=[ONE], ranges=[OURS, crossing])
    assert phases(document) == {"iteration.step": (1, 9_000, 10_000, 10_000, 1)}
    assert document["coverage"]["gpu_ns_in_ranges_share"] == 1.0


@pytest.mark.parametrize("end_ns", [None, 50_000])
def test_b4_a_range_that_was_not_closed_has_work_but_no_duration(end_ns: int | None) -> None:
    """aws-ofi-nccl#1284, quent#472: nsys leaves the end empty, or writes the session's."""
    document = audit_of(
        kernels=[ONE],
        ranges=[OURS, Range("iteration.model", 0, 4_000, domain=1), step(4_500, end_ns)],
        duration_ns=50_000,
    )
    assert phases(document) == {
        "iteration.model": (1, 4_000, 0, 0, 0),
        "iteration.step": (1, 0, 10_000, 10_000, 1),
    }


def test_b5_work_belongs_to_the_thread_that_launched_it(run: Run, tmp_path: Path) -> None:
    """nsight-python#57: the backward pass launches from another thread."""
    backward = Kernel(20_000, 50_000, GEMM, launch=launch(15_000, WORKER))
    trace = make_trace(
        tmp_path / "t.sqlite", kernels=[ONE, backward], ranges=[OURS, step(0, 40_000)]
    )
    document = audit_file(trace)
    assert phases(document) == {"iteration.step": (1, 40_000, 10_000, 10_000, 1)}
    assert document["coverage"]["gpu_ns_in_ranges_share"] == 0.25
    assert "GPU time in ranges  25.0 %" in run("audit", trace).out


def test_b6_process_thread_and_device_stay_together(tmp_path: Path) -> None:
    """JAX-Toolbox#985: several GPUs of a process could not be told apart."""
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[
            Kernel(10_000, 20_000, GEMM, launch=launch(1_000)),
            Kernel(10_000, 25_000, GEMM, device=1, context=2, launch=launch(1_000, WORKER)),
        ],
    )
    with oa.open_trace(path) as trace:
        work, calls = trace.operations, trace.api_calls
        keys = work.select("process", "device").with_columns(
            calls["thread"].gather(work["api_row"])
        )
    assert keys.rows() == [(DEFAULT_PROCESS, 0, DEFAULT_THREAD), (DEFAULT_PROCESS, 1, WORKER)]
    devices = audit_file(path)["devices"]
    assert [(one["device"], one["busy_ns"]) for one in devices] == [(0, 10_000), (1, 15_000)]


def test_b7_envelope_and_work_are_two_figures(run: Run, tmp_path: Path) -> None:
    """roboflow/inference#2942, nvbench#92: first start to last end is not time of kernels."""
    late = Kernel(90_000, 100_000, GEMM, launch=launch(8_000))
    trace = make_trace(tmp_path / "t.sqlite", kernels=[ONE, late], ranges=[OURS, step(0, 9_000)])
    assert phases(audit_file(trace)) == {"iteration.step": (1, 9_000, 90_000, 20_000, 2)}
    printed = [" ".join(line.split()) for line in run("audit", trace).out.splitlines()]
    assert "level.phase count host GPU span GPU busy ops" in printed
    assert "iteration.step 1 9.000 90.000 20.000 2" in printed


def test_b8_work_that_runs_in_the_next_step_is_of_the_step_that_launched_it() -> None:
    """TensorRT-LLM#11860: under overlap scheduling GPU time was charged one step late."""
    document = audit_of(
        kernels=[Kernel(12_000, 18_000, GEMM, launch=launch(1_000))],
        ranges=[OURS, step(0, 10_000), Range("iteration.model", 10_000, 20_000, domain=1)],
        duration_ns=50_000,
    )
    assert phases(document) == {
        "iteration.model": (1, 10_000, 0, 0, 0),
        "iteration.step": (1, 10_000, 6_000, 6_000, 1),
    }


def test_b10_text_and_registered_text_in_their_domains(tmp_path: Path) -> None:
    """NCCL registers its texts, PyTorch does not; one file holds both."""
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[ONE],
        ranges=[
            nvtx_domain("NCCL", 1),
            Range("ncclAllReduce", 0, 9_000, domain=1, registered=True),
            Range("aten::add", 1_000, 8_000),
        ],
    )
    with oa.open_trace(path) as trace:
        rows = trace.ranges.select("domain_id", "domain", "text", "level").rows()
    assert rows == [(1, "NCCL", "ncclAllReduce", "api"), (0, None, "aten::add", "op")]
