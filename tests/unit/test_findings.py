"""Findings about the trace itself: each fires where it should, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from overlapaudit.rules.catalogue import RULES, page
from overlapaudit.rules.policy import DEFAULT_POLICY, load_policy
from tests.support import audit_file, audit_of, codes, finding
from tests.tracebuilder import (
    ApiCall,
    Diagnostic,
    EventRecord,
    GraphLaunch,
    Kernel,
    MemoryEvent,
    ProfilerOverhead,
    Range,
    Sync,
    global_pid,
    main_thread,
    make_trace,
)

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
OTHER = global_pid(77)


def kernels(count: int = 1, **kwargs: Any) -> list[Kernel]:
    return [Kernel(10_000 * n, 10_000 * n + 5_000, GEMM, **kwargs) for n in range(1, count + 1)]


def test_a_clean_trace_has_no_finding() -> None:
    assert codes(audit_of(kernels=kernels(99))) == []


def test_oa005_passes_on_what_the_profiler_says() -> None:
    said = [
        Diagnostic("Not all CUDA events might have been collected.", "warning"),
        Diagnostic("No OpenGL events collected. Does the process use OpenGL?", "warning"),
        Diagnostic("Unable to configure /home/someone/x", "error"),
    ]
    found = finding(audit_of(kernels=kernels(2), diagnostics=said), "OA005")
    assert found["severity"] == "info"
    assert found["evidence"] == {
        "profiler_says": ["not all CUDA events may be there"],
        "other_errors_of_the_profiler": 1,
    }
    harmless = audit_of(kernels=kernels(2), diagnostics=said[1:2])
    assert codes(harmless) == []


def test_oa005_leaves_out_processes_that_oa007_names() -> None:
    launch = ApiCall("cudaLaunchKernel_v7000", 0, 1, main_thread(OTHER))
    assert codes(audit_of(kernels=kernels(2), api_calls=[launch])) == ["OA007"]


def test_oa006_short_kernels_are_told_apart_from_slow_launches() -> None:
    found = finding(audit_of(kernels=kernels(100)), "OA006")
    assert found["severity"] == "info"
    assert found["evidence"] == {"median_kernel_ns": 5_000, "kernels": 100}
    long = [Kernel(20_000 * n, 20_000 * n + 10_000, GEMM) for n in range(1, 101)]
    assert codes(audit_of(kernels=long)) == []


def test_oa001_no_gpu_work() -> None:
    found = finding(audit_of(api_calls=[ApiCall("cudaLaunchKernel_v7000", 0, 1)]), "OA001")
    assert found["severity"] == "error"
    assert found["evidence"] == {"gpu_tables": [], "api_calls": 1, "launches": 1}
    empty = finding(audit_of(lazy=False), "OA001")
    assert empty["evidence"]["gpu_tables"] == ["graph", "kernel", "memcpy", "memset"]


def test_oa002_opaque_graphs() -> None:
    document = audit_of(kernels=kernels(), graph_launches=[GraphLaunch(20_000, 80_000)])
    found = finding(document, "OA002")
    assert found["severity"] == "warning"
    assert found["evidence"] == {"opaque_ns": 60_000, "window_ns": 70_000, "replays": 1}
    assert found["where"]["device"] == 0
    assert (found["where"]["start_ns"], found["where"]["end_ns"]) == (10_000, 80_000)


def test_oa002_a_little_opaque_time_is_information() -> None:
    document = audit_of(
        kernels=[Kernel(10_000, 10_000_000, GEMM)], graph_launches=[GraphLaunch(20_000, 21_000)]
    )
    assert finding(document, "OA002")["severity"] == "info"


def test_oa002_graph_launches_without_rows() -> None:
    document = audit_of(
        schema="2023.4", kernels=kernels(), graph_launches=[GraphLaunch(20_000, 80_000)] * 3
    )
    found = finding(document, "OA002")
    assert found["severity"] == "warning"
    assert found["evidence"]["graph_launches_without_gpu_rows"] == 3


def lost_launches(lost: int) -> dict[str, Any]:
    """Audit 19 replays of which the nodes are there, and some of which nothing is."""
    return audit_of(
        kernels=kernels(19, graph_node=1),
        api_calls=[ApiCall("cudaGraphLaunch_v10000", 30_000 + n, 30_001 + n) for n in range(lost)],
    )


def test_oa002_few_lost_graph_rows_are_information() -> None:
    few = audit_of(
        kernels=kernels(20, graph_node=1),
        api_calls=[ApiCall("cudaGraphLaunch_v10000", 30_000, 30_001)],
    )
    assert finding(few, "OA002")["severity"] == "info"
    assert few["devices"][0]["idle_ns"] == 95_000
    assert "OA005" not in codes(few)


def test_oa002_where_one_of_twenty_is_lost_idle_time_is_not_known() -> None:
    document = lost_launches(1)
    assert finding(document, "OA002")["severity"] == "warning"
    assert document["devices"][0]["idle_ns"] is None


def test_oa002_launches_after_the_last_work_are_no_lost_rows() -> None:
    document = audit_of(
        kernels=kernels(graph_node=1),
        api_calls=[ApiCall("cudaGraphLaunch_v10000", 11_000, 12_000)],
    )
    assert "OA002" not in codes(document)
    assert finding(document, "OA005")["evidence"]["of_these_after_the_last_with_work"] == 1


def test_oa002_nodes_without_a_launch_are_work_all_the_same() -> None:
    document = audit_of(
        kernels=[*kernels(graph_node=1, launch=None), Kernel(30_000, 31_000, GEMM)],
        api_calls=[ApiCall("cudaGraphLaunch_v10000", 1_000, 2_000)],
    )
    assert document["devices"][0]["idle_ns"] == 15_000
    assert finding(document, "OA002")["severity"] == "info"


def test_what_follows_a_wait_on_a_blind_graph_has_no_price() -> None:
    launched = ApiCall("cudaLaunchKernel_v7000", 0, 1_000)
    document = audit_of(
        schema="2023.4",
        kernels=[Kernel(10_000, 200_000, GEMM, launch=launched), Kernel(900_000, 910_000, GEMM)],
        api_calls=[ApiCall("cudaGraphLaunch_v10000", 2_000, 3_000)],
        syncs=[Sync(5_000, 206_000, "stream_sync")],
        ranges=[Range("Decode", 0, 4_000)],
    )
    found = finding(document, "OA502")
    assert (found["severity"], found["confidence"], found["cost_ns"]) == ("info", "inferred", None)
    assert document["coverage"]["gpu_ns_in_ranges_share"] is None


@pytest.mark.parametrize(("unresolved", "severity"), [(1, "info"), (2, "warning")])
def test_oa003_unresolved_waits(unresolved: int, severity: str) -> None:
    resolved = [Sync(10 * n, 10 * n + 1, "stream_wait", event_id=1) for n in range(1, 39)]
    lost = [Sync(500, 501, "stream_wait", event_id=2)] * unresolved
    document = audit_of(
        kernels=kernels(), event_records=[EventRecord(0, 1, event_id=1)], syncs=resolved + lost
    )
    # 1 of 39 and 2 of 40 waits: below and at 5 per cent. That the thread recorded another event
    # before is no answer.
    found = finding(document, "OA003")
    assert found["severity"] == severity
    assert found["evidence"]["unresolved"] == unresolved


def test_oa003_is_silent_where_all_are_exact() -> None:
    document = audit_of(
        kernels=kernels(),
        event_records=[EventRecord(0, 1, event_id=1)],
        syncs=[Sync(10, 11, "stream_wait", event_id=1)],
    )
    assert codes(document) == []


@pytest.mark.parametrize(("early", "severity"), [(1, "warning"), (2, "error")])
def test_oa004_clock_violation(early: int, severity: str) -> None:
    late = ApiCall("cudaLaunchKernel_v7000", 5_000_000, 5_000_001)
    bad = [Kernel(2_000_000 + n, 2_100_000, GEMM, launch=late) for n in range(early)]
    found = finding(audit_of(kernels=kernels(198) + bad), "OA004")
    assert found["severity"] == severity
    assert found["evidence"]["operations_before_their_launch"] == early


@pytest.mark.parametrize(("orphans", "severity"), [(5, "info"), (6, "warning")])
def test_oa005_truncated(orphans: int, severity: str) -> None:
    without = [Kernel(n, n + 1, GEMM, launch=None) for n in range(orphans)]
    found = finding(audit_of(kernels=kernels(114) + without), "OA005")
    # 5 of 119 and 6 of 120: below and at 5 per cent.
    assert found["severity"] == severity
    assert found["confidence"] == "inferred"
    assert found["evidence"]["operations_without_launch"] == orphans


def test_oa005_work_that_came_after_the_end() -> None:
    document = audit_of(
        kernels=kernels(), api_calls=[ApiCall("cudaLaunchKernel_v7000", 90_000, 91_000)]
    )
    found = finding(document, "OA005")
    assert found["severity"] == "info"
    assert found["evidence"]["launches_without_work"] == 1
    assert found["evidence"]["of_these_after_the_last_with_work"] == 1


def test_oa006_perturbing_settings() -> None:
    document = audit_of(kernels=kernels(), memory_events=[MemoryEvent(5)])
    found = finding(document, "OA006")
    assert (found["severity"], found["evidence"]["settings"]) == ("warning", ["cuda-memory-usage"])


@pytest.mark.parametrize(("until", "codes_found"), [(10_099, []), (10_100, ["OA006"])])
def test_oa006_time_in_the_profiler(until: int, codes_found: list[str]) -> None:
    document = audit_of(
        kernels=[Kernel(10_000, 30_000, GEMM)],
        # Two rows at once are one stretch of time, and what lies outside the window is none.
        profiler_overheads=[
            ProfilerOverhead(5_000, until),
            ProfilerOverhead(10_050, until),
            ProfilerOverhead(40_000, 90_000),
        ],
    )
    assert codes(document) == codes_found


def test_oa006_is_of_the_process_that_was_held_up() -> None:
    document = audit_of(
        kernels=[
            Kernel(10_000, 30_000, GEMM),
            Kernel(10_000, 30_000, GEMM, process=OTHER, device=1),
        ],
        profiler_overheads=[ProfilerOverhead(10_000, 12_000, thread=main_thread(OTHER))],
    )
    assert finding(document, "OA006")["where"]["process"] == OTHER


def test_oa005_launches_that_lost_their_work() -> None:
    lost = [ApiCall("cudaLaunchKernel_v7000", 100 + n, 101 + n) for n in range(3)]
    found = finding(audit_of(kernels=kernels(), api_calls=lost), "OA005")
    assert found["severity"] == "info"
    assert found["evidence"]["launches_without_work"] == 3
    assert found["evidence"]["of_these_after_the_last_with_work"] == 0


def test_a_driver_call_inside_a_runtime_call_is_one_launch() -> None:
    document = audit_of(
        kernels=kernels(correlation=5),
        api_calls=[
            ApiCall("cudaLaunchKernel_v7000", 1_000, 3_000, correlation=5),
            ApiCall("cuLaunchKernel", 1_500, 2_500, correlation=5),
        ],
    )
    assert document["coverage"]["launches"] == 1
    assert codes(document) == []


def test_oa002_counts_the_replays_of_the_window() -> None:
    replays = [GraphLaunch(10_000 * n, 10_000 * n + 5_000) for n in range(1, 11)]
    document = audit_of(window="35us..52us", graph_launches=replays)
    assert finding(document, "OA002")["evidence"]["replays"] == 2


def test_findings_about_a_trace_say_which() -> None:
    document = audit_of(kernels=[*kernels(), *kernels(launch=None)])
    assert finding(document, "OA005")["where"]["rank"] == 0


def test_oa007_a_process_whose_work_is_missing() -> None:
    launches = [ApiCall("cudaLaunchKernel_v7000", 0, 1, main_thread(OTHER))]
    found = finding(audit_of(kernels=kernels(), api_calls=launches), "OA007")
    assert (found["severity"], found["confidence"]) == ("warning", "proven")
    assert found["where"]["process"] == OTHER


def test_oa007_a_process_that_only_asks() -> None:
    asks = [ApiCall("cudaGetDeviceCount_v3020", 0, 1, main_thread(OTHER))]
    found = finding(audit_of(kernels=kernels(), api_calls=asks), "OA007")
    assert (found["severity"], found["confidence"]) == ("info", "possible")


@pytest.mark.parametrize(("unknown_ns", "severity"), [(49, "info"), (50, "warning")])
def test_oa008_unclassified_kernels(unknown_ns: int, severity: str) -> None:
    document = audit_of(
        kernels=[
            Kernel(10_000, 11_000 - unknown_ns, GEMM),
            Kernel(11_000 - unknown_ns, 11_000, "frobnicate<int>(float*)"),
        ]
    )
    found = finding(document, "OA008")
    assert found["severity"] == severity
    assert found["evidence"]["unclassified_ns"] == unknown_ns
    assert found["evidence"]["kernel_ns"] == 1_000
    assert found["evidence"]["longest"] == ["frobnicate<int>(float*)"]
    assert document["devices"][0]["unclassified_ns"] == unknown_ns


def test_user_rules_go_first(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [["comm.mine", "frobnicate"], ["mine", "^sm90_xmma"]]}')
    names = ["frobnicate<int>", GEMM]
    path = make_trace(
        tmp_path / "t.sqlite",
        kernels=[Kernel(9_000 * n, 9_000 * n + 10, name) for n, name in enumerate(names, 1)],
    )
    with oa.open_trace(path, rules=rules) as trace:
        assert trace.operations["class"].to_list() == ["comm.mine", "mine"]
        assert trace.operations["lane"].to_list() == ["comm", "compute"]
    assert codes(audit_file(path)) == ["OA008"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "expected"),
        ('{"rules": [["comm", "("]]}', "rule 1 (comm) has a broken pattern"),
        ('{"rules": [["a b", "x"]]}', "rule 1 must be a class"),
        ('{"rules": [["gemm", "x"], ["gemm"]]}', "rule 2 must be a class"),
    ],
)
def test_broken_rules_are_refused(tmp_path: Path, text: str, said: str) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(text)
    path = make_trace(tmp_path / "t.sqlite", kernels=kernels())
    with pytest.raises(oa.UsageError) as refused:
        oa.open_trace(path, rules=rules)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_findings_come_heaviest_first() -> None:
    document = audit_of(
        kernels=[Kernel(10_000, 11_000, "frobnicate"), *kernels(3, launch=None)],
        profiler_overheads=[ProfilerOverhead(10_000, 20_000)],
        memory_events=[MemoryEvent(5)],
    )
    assert codes(document) == ["OA005", "OA006", "OA008", "OA006"]
    severities = [one["severity"] for one in document["findings"]]
    assert severities == ["warning", "warning", "warning", "info"]


TWO = {"kernels": [Kernel(10_000, 11_000, "frobnicate")], "memory_events": [MemoryEvent(5)]}


@pytest.mark.parametrize(
    ("select", "ignore", "left"),
    [
        ((), (), ["OA006", "OA008"]),
        (("OA008",), (), ["OA008"]),
        (("oa0",), (), ["OA006", "OA008"]),
        ((), ("OA006,OA001",), ["OA008"]),
        ((), ("OA0",), []),
        (("OA006",), ("OA0",), ["OA006"]),  # the longer pattern wins
        (("OA0",), ("OA006",), ["OA008"]),
        (("OA006",), ("OA006",), []),
    ],
)
def test_select_and_ignore(
    select: tuple[str, ...], ignore: tuple[str, ...], left: list[str]
) -> None:
    policy = DEFAULT_POLICY.narrowed(select, ignore)
    assert codes(audit_of(policy=policy, **TWO)) == left


def test_policy_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('ignore = ["OA006"]\n[thresholds.OA008]\nwarning_share = 1.0\n')
    policy = load_policy(file)
    content = {**TWO, "kernels": [*TWO["kernels"], *kernels(2)]}
    document = audit_of(policy=policy, **content)
    assert [(f["code"], f["severity"]) for f in document["findings"]] == [("OA008", "info")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select = 3", "select must be a list of codes"),
        ('select = ["OA777"]', "'OA777' fits no finding code"),
        ('selct = ["OA001"]', "unknown key 'selct'"),
        ("= 3", "not TOML"),
        ("[thresholds.OA777]\nx = 1", "thresholds.OA777: no such finding code"),
        ("[thresholds.OA001]\nx = 1", "OA001 has no thresholds"),
        ("[thresholds.OA008]\nwarning_share = 3", "must be a share from 0 to 1"),
        ("[thresholds.OA008]\nwarning_share = nan", "must be a share from 0 to 1"),
        ("[thresholds.OA008]\nwarning_share = true", "must be a share from 0 to 1"),
    ],
)
def test_broken_policies_are_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(oa.UsageError) as refused:
        load_policy(file)
    assert said in str(refused.value)


def test_every_code_has_a_page_that_names_its_thresholds() -> None:
    for code, rule in RULES.items():
        text = page(code)
        assert text.startswith(f"# {code} {rule.slug}\n")
        assert max(map(len, text.splitlines())) <= 160
        for name, threshold in rule.thresholds.items():
            assert f"`{name}` (default {threshold.default:g})" in text
        assert ("## Policy" in text) is bool(rule.thresholds)
