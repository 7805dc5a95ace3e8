"""The commands: what they print and write, their exit codes, their one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from overlapaudit.rules.catalogue import RULES
from tests.cli.conftest import Run
from tests.tracebuilder import Copy, Gpu, Kernel, MpiRank, make_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(10_000, 20_000, "frobnicate"), Kernel(15_000, 30_000, "gemm", stream=9)],
        copies=[Copy(25_000, 40_000, "h2d", stream=10)],
    )


def test_audit_prints_text(run: Run, trace: Path) -> None:
    done = run("audit", trace)
    assert done.status == 0
    assert done.err == ""
    assert "rank 0 · device 0" in done.out
    assert "compute, two streams" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b" not in done.out


def test_audit_writes_json(run: Run, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "audit.json"
    done = run("audit", trace, "--json", target)
    assert done.status == 0
    assert done.err == f"Wrote {target}\n"
    assert "rank 0" in done.out
    document = json.loads(target.read_text())
    assert document["devices"][0]["busy_ns"] == 30_000
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_stdout_holds_only_the_json(run: Run, trace: Path) -> None:
    to_stdout = run("audit", trace, "--json", "-")
    assert json.loads(to_stdout.out)["format_version"] == 1
    assert to_stdout.err == ""
    assert run("audit", trace, "--format", "json").out == to_stdout.out


def test_nothing_is_overwritten_without_force(run: Run, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "audit.json"
    target.write_text("mine")
    refused = run("audit", trace, "--json", target)
    assert refused.status == 2
    assert "exists" in refused.complaint
    assert target.read_text() == "mine"
    assert run("audit", trace, "--json", target, "--force").status == 0
    assert json.loads(target.read_text())


def test_an_input_is_not_overwritten_even_by_force(run: Run, trace: Path, tmp_path: Path) -> None:
    before = trace.read_bytes()
    link = tmp_path / "link.json"
    link.symlink_to(trace)
    for target in (trace, link):
        refused = run("audit", trace, "--json", target, "--force")
        assert refused.status == 2
        assert "is an input" in refused.complaint
    assert trace.read_bytes() == before


def test_a_file_in_a_folder_of_ranks_is_not_overwritten(run: Run, trace: Path) -> None:
    before = trace.read_bytes()
    refused = run("audit", trace.parent, "--json", trace, "--force")
    assert refused.status == 2
    assert trace.read_bytes() == before


@pytest.mark.parametrize(
    ("target", "said"), [("absent/audit.json", "folder does not exist"), (".", "is a folder")]
)
def test_targets_that_cannot_be(
    run: Run, trace: Path, tmp_path: Path, target: str, said: str
) -> None:
    refused = run("audit", trace, "--json", tmp_path / target)
    assert refused.status == 2
    assert said in refused.complaint


def test_a_link_is_written_through(run: Run, trace: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(target)
    assert run("audit", trace, "--json", link).status == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())


def test_a_device_stays_a_device(run: Run, trace: Path) -> None:
    assert run("audit", trace, "--json", "/dev/null").status == 0
    assert Path("/dev/null").is_char_device()


def test_ranks_are_those_of_mpi_where_all_have_one(run: Run, tmp_path: Path) -> None:
    for name, rank in (("a", 1), ("b", 0)):
        make_trace(
            tmp_path / f"{name}.sqlite", kernels=[Kernel(0, 100 + rank)], mpi_ranks=[MpiRank(rank)]
        )
    document = json.loads(run("audit", tmp_path, "--json", "-").out)
    found = [(device["rank"], device["window_ns"]) for device in document["devices"]]
    assert found == [(0, 100), (1, 101)]


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-", ">&- 2>&-"])
def test_output_that_cannot_be_written(trace: Path, redirect: str) -> None:
    command = f"{sys.executable} -m overlapaudit audit {trace} {redirect}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == (2 if "full" in redirect else 0)
    assert done.stderr.count("\n") <= 1
    assert "Traceback" not in done.stderr


def test_windows(run: Run, trace: Path) -> None:
    document = json.loads(run("audit", trace, "--window", "12us..18us", "--json", "-").out)
    assert document["window"] == {"kind": "span", "start_ns": 12_000, "end_ns": 18_000}
    assert document["devices"][0]["window_ns"] == 6_000
    assert document["devices"][0]["overlap"][0]["overlap_ns"] == 3_000
    assert "window 12.000 µs .. 18.000 µs" in run("audit", trace, "--window", "12us..18us").out


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("5ms..6ms", "no GPU work"),
        ("5..6ms", "no time with a unit"),
        ("6ms..5ms", "ends before it begins"),
        ("5ms", "expected trace, iteration, or A..B"),
        ("0.5ns..3ns", "not a whole number of ns"),
        ("1e3ns..3ns", "no time with a unit"),
        ("1ms..99999999999999999999s", "no time with a unit"),
        ("1ms..9999999999999999999s", "beyond any session"),
        ("1ms..1ms", "is empty"),
        ("iteration", "no step is marked"),
        ("request", "does not judge requests yet"),
        ("", "expected trace, iteration, or A..B"),
    ],
)
def test_windows_that_are_none(run: Run, trace: Path, window: str, said: str) -> None:
    refused = run("audit", trace, "--window", window)
    assert refused.status == 2
    assert said in refused.complaint


def test_select_ignore_and_policy(run: Run, trace: Path, tmp_path: Path) -> None:
    plain = json.loads(run("audit", trace, "--json", "-").out)
    assert [one["code"] for one in plain["findings"]] == ["OA008"]
    ignored = json.loads(run("audit", trace, "--ignore", "OA0", "--json", "-").out)
    assert ignored["findings"] == []
    policy = tmp_path / "policy.toml"
    policy.write_text('select = ["OA001"]')
    chosen = json.loads(run("audit", trace, "--policy", policy, "--json", "-").out)
    assert chosen["findings"] == []
    assert run("audit", trace, "--select", "OA9").status == 2
    assert run("audit", trace, "--policy", tmp_path / "absent.toml").status == 2


def test_several_traces_are_ranks(run: Run, trace: Path, tmp_path: Path) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for number in (10, 9, 0):
        make_trace(ranks / f"rank{number}.sqlite", kernels=[Kernel(0, 100 + number)])
    (ranks / "notes.txt").write_text("not a trace")
    document = json.loads(run("audit", ranks, trace, "--json", "-").out)
    assert [one["file"] for one in document["inputs"]] == [
        "rank0.sqlite",
        "rank9.sqlite",
        "rank10.sqlite",
        "trace.sqlite",
    ]
    found = [(device["rank"], device["window_ns"]) for device in document["devices"]]
    assert found == [(0, 100), (1, 109), (2, 110), (3, 30_000)]


def test_doctor(run: Run, trace: Path) -> None:
    done = run("doctor", trace)
    assert done.status == 0
    for expected in (
        "GPU work            kernel, memcpy",
        "NVTX ranges",
        "--cuda-graph-trace=node",
        "nsys export --type sqlite",
    ):
        assert expected in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_explain_and_rules(run: Run) -> None:
    listed = run("rules").out
    for code, rule in RULES.items():
        assert f"{code}  {rule.slug}" in listed
        assert run("explain", code.lower()).out.startswith(f"# {code} {rule.slug}")
    refused = run("explain", "OA999")
    assert refused.status == 2
    assert "no such finding code" in refused.complaint


@pytest.mark.parametrize(
    "arguments",
    [["audit"], ["audit", "x", "--format", "xml"], ["bogus"], ["--bogus"], ["audit", "--window"]],
)
def test_usage_errors_are_one_line(run: Run, arguments: list[str]) -> None:
    refused = run(*arguments)
    assert refused.status == 2
    assert refused.out == ""
    assert "--help" in refused.complaint


def test_help_and_version(run: Run) -> None:
    assert "audit" in run("--help").out
    assert run().out == run("-h").out
    assert run("--version").out.startswith("overlapaudit ")
    assert "--window" in run("audit", "--help").out


def test_output_is_the_same_each_time(run: Run, trace: Path) -> None:
    assert run("audit", trace, "--json", "-").out == run("audit", trace, "--json", "-").out
    assert run("audit", trace).out == run("audit", trace).out


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _program(*arguments: object, **kwargs: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "overlapaudit", *map(str, arguments)],
        capture_output=True,
        check=False,
        **kwargs,  # type: ignore[call-overload]
    )


def test_as_a_program(trace: Path) -> None:
    done = _program("audit", trace, "--json", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["inputs"][0]["file"] == "trace.sqlite"
    assert _program("audit", trace.parent / "absent").returncode == 3
    assert _program("audit").returncode == 2


def test_output_in_a_narrow_character_set(tmp_path: Path) -> None:
    trace = make_trace(
        tmp_path / "t.sqlite", kernels=[Kernel(0, 10, "noyau_é")], gpus=[Gpu(name="GPU é")]
    )
    done = _program("audit", trace, env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"GPU \\xe9" in done.stdout


def test_a_reader_that_leaves_early(trace: Path) -> None:
    command = f"{sys.executable} -m overlapaudit audit {trace} --json -"
    program = f"{command} | head -c 5; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.endswith("0\n")
