"""Recordings that leave something open: what is not known is said, never guessed."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from overlapaudit.model.errors import InputError
from overlapaudit_reports.text import audit_text
from tests.support import audit_file, audit_of, codes, copies, finding, only_device
from tests.tracebuilder import (
    ApiCall,
    Copy,
    Kernel,
    Range,
    Sync,
    global_tid,
    make_trace,
    nvtx_domain,
)

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def launch(start_ns: int) -> ApiCall:
    return ApiCall("cudaLaunchKernel_v7000", start_ns, start_ns + 1_000)


def gaps(document: dict[str, Any]) -> dict[str, str]:
    return {gap["what"]: gap["why"] for gap in document["coverage"]["not_recorded"]}


def test_a_range_that_was_not_closed_swallows_no_later_one() -> None:
    document = audit_of(
        kernels=[
            Kernel(at + 10_000, at + 20_000, GEMM, launch=launch(at))
            for at in range(0, 300_000, 100_000)
        ],
        ranges=[
            Range("Decode", 0, None),
            Range("Decode", 100_000, 200_000),
            Range("Decode", 200_000, 300_000),
        ],
        duration_ns=900_000,
    )
    (span,) = document["spans"]
    assert (span["count"], span["operations"]) == (3, 3)
    assert (span["host_ns"], span["busy_ns"], span["span_ns"]) == (200_000, 30_000, 30_000)
    assert gaps(document)["spans.host_ns"].startswith("1 ranges were not closed")


def test_ranges_that_cross_threads_have_no_work_of_their_own() -> None:
    document = audit_of(
        kernels=[Kernel(10_000, 20_000, GEMM)],
        ranges=[
            Range(
                "Decode", 0, 9_000, range_id=5,
                thread=global_tid(1000, 55), end_thread=global_tid(1000, 77),
            )
        ],
    )  # fmt: skip
    (span,) = document["spans"]
    assert (span["host_ns"], span["busy_ns"], span["operations"]) == (9_000, None, None)
    assert "cross threads" in gaps(document)["spans of iteration.step"]


def test_start_end_ranges_of_a_launching_thread_have_its_work() -> None:
    document = audit_of(
        kernels=[Kernel(10_000, 20_000, GEMM, launch=launch(0))],
        ranges=[Range("Decode", 2_000, 9_000, range_id=5)],
    )
    (span,) = document["spans"]
    assert (span["busy_ns"], span["operations"]) == (0, 0)


def test_text_beats_string_number_zero(tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(10_000, 20_000, GEMM)],
        ranges=[Range("Decode", 0, 9_000)],
    )
    with sqlite3.connect(path) as database:
        database.execute("UPDATE NVTX_EVENTS SET textId = 0 WHERE textId IS NULL")
    assert [span["phase"] for span in audit_file(path)["spans"]] == ["step"]


@pytest.mark.parametrize(("version", "known"), [("3.25.0", True), ("4.0.0", False)])
def test_an_unknown_schema_is_said(version: str, known: bool) -> None:
    document = audit_of(
        kernels=[Kernel(10_000, 20_000, GEMM)],
        export_settings=[("EXPORT_SCHEMA_VERSION", version)],
    )
    assert ("what only newer exports hold" in gaps(document)) is not known


def test_a_rank_whose_capture_was_not_finalised_is_not_left_out(tmp_path: Path) -> None:
    make_trace(tmp_path / "r0.sqlite", kernels=[Kernel(10_000, 20_000)])
    unfinished = tmp_path / "r1.qdstrm"
    unfinished.write_bytes(b"x")
    with pytest.raises(InputError, match=r"r1\.qdstrm: the capture was not finalised"):
        oa.find_traces([tmp_path])
    make_trace(tmp_path / "r1.sqlite", kernels=[Kernel(10_000, 20_000)])
    assert [path.name for path in oa.find_traces([tmp_path])] == ["r0.sqlite", "r1.sqlite"]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [(0, 1, {"p2p": 10_000}), (0, 0, {"d2d": 10_000}), (None, None, {"d2d": 10_000})],
)
def test_a_copy_between_two_devices_is_a_peer_copy(
    source: int | None, target: int | None, expected: dict[str, int]
) -> None:
    copy = Copy(10_000, 20_000, "d2d", src_device=source, dst_device=target)
    assert copies(only_device(audit_of(copies=[copy]))) == expected


@pytest.mark.parametrize(("returns", "reported"), [(279_000, True), (259_000, False)])
def test_a_staged_copy_that_lasts_as_long_as_its_call(returns: int, reported: bool) -> None:
    call = ApiCall("cudaMemcpyAsync_v3020", 95_000, returns)
    copy = Copy(100_000, 300_000, "h2d", 8_000_000, src_kind="pageable", launch=call)
    document = audit_of(copies=[copy], kernels=[Kernel(400_000, 500_000, GEMM)])
    assert ("OA503" in codes(document)) is reported


def test_a_window_cuts_the_wait_too() -> None:
    document = audit_of(
        window="100us..110us",
        kernels=[
            Kernel(10_000, 200_000, GEMM, launch=launch(0)),
            Kernel(250_000, 300_000, GEMM),
        ],
        syncs=[Sync(5_000, 206_000, "stream_sync")],
    )
    (wait,) = document["hidden_syncs"]
    assert (wait["host_wait_ns"], wait["gpu_idle_ns"]) == (10_000, 0)


def test_the_text_says_what_a_finding_costs(tmp_path: Path) -> None:
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[
            Kernel(10_000, 200_000, GEMM, launch=launch(0)),
            Kernel(250_000, 300_000, GEMM, launch=launch(240_000)),
        ],
        syncs=[Sync(5_000, 206_000, "stream_sync")],
        ranges=[nvtx_domain("overlapaudit", 1)],
    )
    with oa.open_trace(path) as trace:
        result = oa.audit(trace)
    assert finding(result.to_dict(), "OA502")["cost_ns"] == 50_000
    assert "OA502 explicit-wait" in audit_text(result.document)
    assert "costs 50.000 µs" in audit_text(result.document)
