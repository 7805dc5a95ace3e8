"""A scrubbed copy: nothing private in any byte, the same audit, the export as it was."""

from __future__ import annotations

import hashlib
import random
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import overlapaudit as oa
from overlapaudit.scrub.private import Private
from overlapaudit.scrub.rewriter import Rewriter
from tests.cli.conftest import Run
from tests.tracebuilder import (
    DEFAULT_PROCESS,
    SCHEMAS,
    ApiCall,
    Copy,
    Diagnostic,
    Gpu,
    GraphLaunch,
    Kernel,
    MpiRank,
    Process,
    Range,
    Stream,
    Sync,
    Thread,
    make_trace,
)

ROOT_HOME = "/" + "root"
TOKEN = "hf_QmVfYzPq93LrTTx"
BLOCK = "\0".join(
    [
        "PATH=/usr/local/bin:/usr/bin",
        "HOME=/gpfs/u/scratch/mchopin",
        "USER=mchopin",
        f"HF_TOKEN={TOKEN}",
        "HOSTNAME=warsaw07.conservatoire.example.edu",
        "SLURM_JOB_NODELIST=etude[01-24]",
        "WANDB_PROJECT=nocturne-opus-9",
        "CUDA_VISIBLE_DEVICES=0,1",
        "CUDA_HOME=/usr/local/cuda-12.4",
        "CUDA_CACHE_NOTE=for mchopin",
        "CUDA_API_KEY=Zg81-scherzo",
        "SSH_CLIENT=10.20.30.40 51234 22",
        "BASH_FUNC_ml%%=() {  eval $(polonaise 1);\n}",
        "",
    ]
)
GONE = [
    TOKEN, "mchopin", "gsand", "dumas", "warsaw", "etude07", "conservatoire", "majorca", "delfina",
    "nocturne", "scherzo", "polonaise", "10.20.30.40", "b8:ce:f6:12:34:56", "PATH=", "HOSTNAME=",
    "impromptu", "mazurka", "Fryderyk", ROOT_HOME, "0x506b4b0300a1b2c3", "berceuse",
]  # fmt: skip
KERNELS = [
    "void at::native::elementwise_kernel<4, at::native::add<float>>(int)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4",
    "root::test_kernel(gpu::user*)",
    "flash_fwd_kernel",
]
RANGES = [
    "forward",
    "step 12",
    "user request",
    "root",
    "page 8.9.0.131",
    "loss=0.5",
    "x@@GLIBC_2.4",
]


def private_content(version: str) -> dict[str, Any]:
    """A trace with something private wherever nsys has been seen to put it, and elsewhere."""
    captured = "PROCESS_0:ENVIRONMENT_VARIABLE"
    content: dict[str, Any] = {
        "schema": version,
        "kernels": [Kernel(1000 * n, 1000 * n + 900, name) for n, name in enumerate(KERNELS, 1)],
        "copies": [Copy(1500, 2500, "h2d", stream=14)],
        "graph_launches": [GraphLaunch(20_000, 30_000)] if version >= "2024" else [],
        "syncs": [Sync(500, 31_000, "device_sync")],
        "api_calls": [ApiCall("cudaMalloc_v3020", 10, 20)],
        "ranges": [Range(name, 5 * n, 5 * n + 900) for n, name in enumerate(RANGES)]
        + [
            Range("load /home/gsand/models/x.bin", 1, 900),
            Range(f"Bearer {TOKEN}", 2, 900, registered=True),
            Range("rank 0 on etude07 for Mchopin", 3, 900),
            Range("mail gsand@majorca.example.org", 4, 900),
        ],
        "processes": [Process(process=DEFAULT_PROCESS, name="/home/gsand/bin/python3")],
        "threads": [Thread("gsand:worker", 1)],
        "gpus": [Gpu(name="NVIDIA A100-SXM4-80GB")],
        "streams": [Stream(9, name="stream of gsand")],
        "mpi_ranks": [MpiRank(0)],
        "export_settings": [
            ("EXPORT_HOST", "majorca"),
            ("EXPORT_USER", "gsand"),
            ("EXPORT_PARAM_INPUT_PATH_ABS", r"C:\Users\Fryderyk C\a.nsys-rep"),
        ],
        "capture_settings": [
            ("DEVICE_DISPLAY_NAME", "warsaw07"),
            (captured, 'CUDA_LAUNCH_BLOCKING="1"'),
            (captured, 'NCCL_DEBUG="INFO"'),
            (captured, 'MY_PASSWORD="impromptu66"'),
            (captured, f'CUDA_MPS_PIPE_DIRECTORY="{ROOT_HOME}/mps"'),
            (captured, 'LOGNAME="dumas"'),
            ("PROCESS_0:USER_NAME", "delfina"),
            ("PROCESS_0:ARGUMENT_0", "API_KEY=impromptu66 CUDA_X=2 ./run --lr=0.1"),
            ("PROCESS_0:WORKING_DIR", f"{ROOT_HOME}/project"),
        ],
        "system_env": [
            ("Hostname", "warsaw07"),
            ("UserName", "delfina"),
            ("DeviceEnvironment", "PATH=/bin\nCUDA_MODULE_LOADING=LAZY\nSECRET_KEY=scherzo-b-flat"),
            ("SystemUID", "berceuse-1"),
            ("NicInfo", '{"Nics":[{"GUID":0x506b4b0300a1b2c3,"Mac":"b8:ce:f6:12:34:56"}]}'),
        ],
        "raw_rows": {
            "ProcessStreams": [
                {"globalPid": DEFAULT_PROCESS, "filenameId": f"{ROOT_HOME}/out.log", "contentId": t}
                for t in ("polonaise in A major\n", "forward")
            ],
            "StringIds": [
                {"id": 100_000, "value": BLOCK},
                {"id": 100_001, "value": "HOME=/x/dumas"},
            ],
        },
        "extra_sql": "CREATE TABLE OTHER(a, b BLOB, n INTEGER, PRIMARY KEY (n)) WITHOUT ROWID;"
        f"INSERT INTO OTHER VALUES (NULL, CAST('xx{TOKEN}yy' AS BLOB), 1), (7, x'00ff10', 2),"
        "('note of mchopin from ''10.20.30.40''', 'b', 3),"
        "('{\"p\":\"\\/home\\/gsand\\/x\"}', '', 4);"
        "CREATE INDEX other_a ON OTHER(a); ANALYZE; CREATE VIEW v AS SELECT n FROM OTHER;"
        "DELETE FROM OTHER WHERE n = 99",
    }  # fmt: skip
    if version >= "2024":
        content["diagnostics"] = [Diagnostic(1, "warning", "cannot open /home/dumas/x (mchopin)")]
        content["raw_rows"]["ANALYSIS_FILE"] = [
            {"id": 1, "filename": "nsys.log", "contentId": "mazurka log", "globalPid": 1}
        ]
    return content


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        database.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
        return list(database.iterdump())


def rows(path: Path, select: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return [row[0] if len(row) == 1 else row for row in database.execute(select)]


def audit(path: Path) -> dict[str, Any]:
    with oa.open_trace(path) as trace:
        document = oa.audit(trace).to_dict()
    del document["inputs"]
    return document


def scrubbed(run: Run, source: Path, name: str = "out.sqlite") -> Path:
    target = source.with_name(name)
    before = (hashlib.sha256(source.read_bytes()).digest(), source.stat().st_mtime_ns)
    done = run("scrub", source, target)
    assert (done.status, done.out, done.err) == (0, "", f"Wrote {target}\n")
    assert (hashlib.sha256(source.read_bytes()).digest(), source.stat().st_mtime_ns) == before
    assert not [entry for entry in source.parent.iterdir() if entry.name.startswith(".")]
    return target


@pytest.mark.parametrize("version", SCHEMAS)
def test_nothing_private_is_left_in_any_byte(run: Run, tmp_path: Path, version: str) -> None:
    source = make_trace(tmp_path / "trace.sqlite", **private_content(version))
    written = source.read_bytes().lower()
    assert len([word for word in GONE if word.lower().encode() not in written]) <= 3  # by version
    target = scrubbed(run, source)
    left = target.read_bytes().lower()
    assert [word for word in GONE if word.lower().encode() in left] == []
    assert audit(target) == audit(source)
    with closing(sqlite3.connect(target)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA freelist_count").fetchone() == (0,)


@pytest.mark.parametrize("version", ["2022.2", "2024.2", "2026.4"])
def test_names_stay(run: Run, tmp_path: Path, version: str) -> None:
    target = scrubbed(run, make_trace(tmp_path / "trace.sqlite", **private_content(version)))
    with oa.open_trace(target) as trace:
        assert set(KERNELS) <= set(trace.operations["name"].cast(str).to_list())
    texts = set(rows(target, "SELECT text FROM NVTX_EVENTS"))
    assert set(RANGES) <= texts
    assert any(re.fullmatch(r"load /home/user\d/models/x\.bin", text or "") for text in texts)
    strings = rows(target, "SELECT value FROM StringIds")
    assert "Bearer [removed]" in strings
    assert {"NVIDIA A100-SXM4-80GB"} == set(rows(target, "SELECT name FROM TARGET_INFO_GPU"))


@pytest.mark.parametrize("version", ["2022.4", "2026.2"])
def test_of_the_environment_only_settings_of_cuda_stay(
    run: Run, tmp_path: Path, version: str
) -> None:
    target = scrubbed(run, make_trace(tmp_path / "trace.sqlite", **private_content(version)))
    strings = dict(rows(target, "SELECT id, value FROM StringIds"))
    assert strings[100_000] == "CUDA_VISIBLE_DEVICES=0,1\0"
    assert strings[100_001] == ""
    system = dict(rows(target, "SELECT name, value FROM TARGET_INFO_SYSTEM_ENV"))
    assert system["DeviceEnvironment"] == "CUDA_MODULE_LOADING=LAZY"
    if version > "2023":
        captured = rows(target, "SELECT name, value FROM META_DATA_CAPTURE")
        variables = [value for name, value in captured if name.endswith("ENVIRONMENT_VARIABLE")]
        assert variables == ['CUDA_LAUNCH_BLOCKING="1"']
        command = dict(captured)["PROCESS_0:ARGUMENT_0"]
        assert command == "[removed] CUDA_X=2 ./run --lr=0.1"


def test_hosts_and_users_have_one_number_everywhere(run: Run, tmp_path: Path) -> None:
    target = scrubbed(run, make_trace(tmp_path / "trace.sqlite", **private_content("2025.5")))
    system = dict(rows(target, "SELECT name, value FROM TARGET_INFO_SYSTEM_ENV"))
    capture = dict(rows(target, "SELECT name, value FROM META_DATA_CAPTURE"))
    export = dict(rows(target, "SELECT name, value FROM META_DATA_EXPORT"))
    assert system["Hostname"] == capture["DEVICE_DISPLAY_NAME"] == "host0"
    assert export["EXPORT_HOST"] == "host1"
    assert system["UserName"] == capture["PROCESS_0:USER_NAME"] == "user0"
    user = export["EXPORT_USER"]
    assert rows(target, "SELECT name FROM PROCESSES") == [f"/home/{user}/bin/python3"]
    (range_,) = rows(target, "SELECT text FROM NVTX_EVENTS WHERE text LIKE 'rank 0%'")
    assert range_.startswith("rank 0 on host")


def test_several_hosts(run: Run, tmp_path: Path) -> None:
    names = ["alpha7.lab.example.net", "localhost", "b", "gpu", "alpha7", "Delta9", "10.1.2.3"]
    source = make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(0, 10, "gpu_alpha7_b")],
        system_env=[("Hostname", name) for name in names],
        ranges=[Range("delta9 to other.lab.example.net via b gpu localhost alpha70", 0, 9)],
    )
    target = scrubbed(run, source)
    hosts = rows(target, "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'")
    assert hosts == ["host0", "host1", "host2", "host3", "host0", "host4", "host5"]
    (text,) = rows(target, "SELECT text FROM NVTX_EVENTS")
    assert text == "host4 to host7 via b gpu localhost alpha70"
    assert "gpu_host0_b" in rows(target, "SELECT value FROM StringIds")


def test_captured_output_is_emptied_and_shared_strings_stay(run: Run, tmp_path: Path) -> None:
    source = make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(0, 10, "gemm")],
        ranges=[Range("forward", 0, 9, registered=True)],
        raw_rows={
            "ProcessStreams": [
                {"globalPid": 1, "filenameId": "out.log", "contentId": text}
                for text in ("forward", "hello from a job\n", "[Unknown]")
            ]
        },
    )
    target = scrubbed(run, source)
    joined = "SELECT value FROM {} JOIN StringIds ON id = {} ORDER BY {}.rowid"
    assert rows(target, joined.format("ProcessStreams", "contentId", "ProcessStreams")) == [
        "", "", "[Unknown]",
    ]  # fmt: skip
    assert "forward" in rows(target, joined.format("NVTX_EVENTS", "textId", "NVTX_EVENTS"))
    assert b"hello" not in target.read_bytes()


def test_two_copies_are_equal_and_a_copy_of_a_copy_too(run: Run, tmp_path: Path) -> None:
    for version in ("2022.2", "2026.4"):
        source = make_trace(tmp_path / "trace.sqlite", **private_content(version))
        first, second = scrubbed(run, source), scrubbed(run, source, "second.sqlite")
        assert dump(first) == dump(second)
        assert dump(scrubbed(run, first, "third.sqlite")) == dump(first)
        for path in (first, second, tmp_path / "third.sqlite"):
            path.unlink()


def test_utf16(run: Run, tmp_path: Path) -> None:
    plain = make_trace(tmp_path / "plain.sqlite", **private_content("2025.5"))
    source = tmp_path / "trace.sqlite"
    with closing(sqlite3.connect(plain)) as old, closing(sqlite3.connect(source)) as new:
        new.execute("PRAGMA encoding = 'UTF-16be'")
        script = [line for line in old.iterdump() if "sqlite_stat" not in line]
        new.executescript("\n".join(script))
        # A statement ends at NUL, a parameter does not.
        new.execute("UPDATE StringIds SET value = ? WHERE id = 100000", (BLOCK,))
        new.commit()
    target = scrubbed(run, source)
    assert rows(target, "PRAGMA encoding") == ["UTF-16be"]
    left = target.read_bytes()
    for word in GONE:
        assert word.encode("utf-16-be") not in left
        assert word.encode() not in left
    assert audit(target) == audit(source)
    assert "CUDA_VISIBLE_DEVICES=0,1\0" in rows(target, "SELECT value FROM StringIds")


HOSTILE = [
    b"\xff\xfe /home/\xffmchopin\xfe/x \xed\xa0\x80",
    b"caf\xe9 mchopin\x00tail",
    b"A" * 10_000 + b"/home/mchopin/" + b"B" * 10_000,
    b"mchopin@" * 3000,
    b"'; DROP TABLE StringIds; -- mchopin",
    b"<script>mchopin</script>\x1b[2J",
]


def test_hostile_text(run: Run, tmp_path: Path) -> None:
    source = make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(10 * n, 10 * n + 5, text) for n, text in enumerate([*HOSTILE, b"\xff"])],
        capture_settings=[("PROCESS_0:USER_NAME", "mchopin")],
        ranges=[Range("", 0, 1), Range("a\0b", 0, 1), Range("%s {} $(id)", 0, 1)],
        extra_sql='CREATE TABLE "odd "" name"("a "" b", [c d] TEXT);'
        "INSERT INTO \"odd \"\" name\" VALUES ('mchopin', x'ff006d63686f70696e');"
        "CREATE TABLE kept(a TEXT); CREATE TABLE log(a TEXT);"
        "CREATE TRIGGER t AFTER UPDATE ON kept BEGIN INSERT INTO log VALUES (old.a); END;"
        "INSERT INTO kept VALUES ('mchopin')",
    )
    target = scrubbed(run, source)
    assert b"mchopin" not in target.read_bytes()
    assert rows(target, "SELECT a FROM kept") == ["user0"]
    assert rows(target, "SELECT a FROM log") == []
    assert rows(target, 'SELECT * FROM "odd "" name"') == [("user0", bytes(9))]
    strings = rows(target, "SELECT CAST(value AS BLOB) FROM StringIds")
    assert b"\xff" in strings
    assert b"caf\xe9 user0\x00tail" in strings
    assert audit(target)["devices"][0]["busy_ns"] == audit(source)["devices"][0]["busy_ns"]


def test_private_names_in_definitions_are_refused(run: Run, tmp_path: Path) -> None:
    source = make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(0, 10)],
        export_settings=[("EXPORT_USER", "mchopin")],
        extra_sql="CREATE TABLE of_mchopin(a)",
    )
    done = run("scrub", source, tmp_path / "out.sqlite")
    assert done.status == 3
    assert "definitions" in done.complaint
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["trace.sqlite"]


def test_deleted_rows_are_not_copied(run: Run, tmp_path: Path) -> None:
    source = make_trace(
        tmp_path / "trace.sqlite",
        kernels=[Kernel(0, 10)],
        extra_sql="PRAGMA secure_delete = OFF; CREATE TABLE gone(a);"
        "INSERT INTO gone VALUES (hex(zeroblob(9000)) || 'wonder'); DROP TABLE gone",
    )
    assert b"wonder" in source.read_bytes()
    assert b"wonder" not in scrubbed(run, source).read_bytes()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return make_trace(tmp_path / "trace.sqlite", kernels=[Kernel(0, 10)])


def test_nothing_is_overwritten_without_force(run: Run, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.sqlite"
    target.write_text("mine")
    done = run("scrub", trace, target)
    assert done.status == 2
    assert "exists" in done.complaint
    assert target.read_text() == "mine"
    assert run("scrub", trace, target, "--force").status == 0
    assert audit(target) == audit(trace)
    assert target.stat().st_mode & 0o077 == 0o066 & target.stat().st_mode


def test_the_input_is_not_overwritten_even_by_force(run: Run, trace: Path, tmp_path: Path) -> None:
    before = trace.read_bytes()
    symbolic, hard = tmp_path / "symbolic.sqlite", tmp_path / "hard.sqlite"
    symbolic.symlink_to(trace)
    hard.hardlink_to(trace)
    for target in (trace, symbolic, hard, tmp_path / "." / trace.name):
        done = run("scrub", trace, target, "--force")
        assert done.status == 2
        assert "is an input" in done.complaint
    assert run("scrub", symbolic, trace, "--force").status == 2
    assert trace.read_bytes() == before


def test_a_failure_leaves_the_target_as_it_was(run: Run, trace: Path, tmp_path: Path) -> None:
    broken, target = tmp_path / "broken.sqlite", tmp_path / "out.sqlite"
    broken.write_bytes(trace.read_bytes()[:5000])
    target.write_text("mine")
    assert run("scrub", broken, target, "--force").status == 3
    assert target.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("target", "said"), [("-", "stdout"), (".", "is a folder"), ("no/x.sqlite", "does not exist")]
)
def test_targets_that_cannot_be(run: Run, trace: Path, target: str, said: str) -> None:
    where = target if target == "-" else trace.parent / target
    done = run("scrub", trace, where)
    assert done.status == 2
    assert said in done.complaint


def test_a_target_with_a_journal_beside_it(run: Run, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "out.sqlite-journal").write_bytes(b"x" * 512)
    assert run("scrub", trace, tmp_path / "out.sqlite").status == 3
    assert not (tmp_path / "out.sqlite").exists()


@pytest.mark.parametrize("name", ["report.nsys-rep", "report.qdrep", "report.qdstrm", "folder"])
def test_what_is_no_sqlite_export(run: Run, tmp_path: Path, name: str) -> None:
    if name == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(b"x")
    done = run("scrub", tmp_path / name, tmp_path / "out.sqlite")
    assert done.status == 2
    assert "nsys export --type sqlite" in done.complaint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"", "empty"),
        (b"hello", "not an SQLite database"),
        (b"SQLite format 3\x00", "truncated"),
        (b"SQLite format 3\x00\x10\x00" + bytes(range(250)) * 20, "cannot be read as an SQLite"),
    ],
)
def test_broken_inputs(run: Run, tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "trace.sqlite"
    if content is not None:
        path.write_bytes(content)
    _refused(run, path, said)


def test_truncated(run: Run, trace: Path) -> None:
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) - 1000])
    _refused(run, trace, "truncated")


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_changes_that_are_not_in_the_file_yet(run: Run, trace: Path, suffix: str) -> None:
    trace.with_name(trace.name + suffix).write_bytes(b"x" * 512)
    _refused(run, trace, "lies beside it")


def test_a_finished_database_in_wal_mode(run: Run, trace: Path) -> None:
    with closing(sqlite3.connect(trace)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    target = scrubbed(run, trace)
    assert sorted(entry.name for entry in trace.parent.iterdir()) == ["out.sqlite", "trace.sqlite"]
    assert audit(target) == audit(trace)


def test_locked_by_a_writer(run: Run, trace: Path) -> None:
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('BEGIN EXCLUSIVE'); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, trace], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        _refused(run, trace, "locked")
        writer.kill()


@pytest.mark.parametrize("seed", range(12))
def test_random_damage(run: Run, tmp_path: Path, seed: int) -> None:
    """Damaged pages give a copy or one line, and never a half of either."""
    source = make_trace(tmp_path / "t.sqlite", page_size=512, **private_content("2025.5"))
    data, chance = bytearray(source.read_bytes()), random.Random(seed)
    for _ in range(chance.choice([1, 10, 100])):
        data[chance.randrange(100, len(data))] = chance.randrange(256)
    source.write_bytes(data)
    done = run("scrub", source, tmp_path / "out.sqlite")
    assert done.status in (0, 3), done.err
    assert (tmp_path / "out.sqlite").exists() is (done.status == 0)
    assert {path.name for path in tmp_path.iterdir()} <= {"t.sqlite", "out.sqlite"}
    assert source.read_bytes() == data


def test_a_database_without_nsys_tables(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t(a)")
    _refused(run, path, "holds no table of an nsys export")


def _refused(run: Run, path: Path, said: str) -> None:
    before = path.read_bytes() if path.exists() else None
    target = path.with_name("out.sqlite")
    done = run("scrub", path, target)
    assert done.status == 3
    assert done.out == ""
    assert said in done.complaint
    assert path.name in done.complaint
    assert not target.exists()
    assert before == (path.read_bytes() if path.exists() else None)


def _rewriter(*, users: list[str] = [], hosts: list[str] = []) -> Rewriter:  # noqa: B006
    private = Private()
    for user in users:
        private.add_user(user)
    for host in hosts:
        private.add_host(host)
    return Rewriter(private)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/x.py", "/home/user0/x.py"),
        ("/mnt/home/alice", "/mnt/home/user0"),
        ("/home/a/alice/x", "/home/a/user0/x"),
        ("/Users/al/x", "/Users/user1/x"),
        (r"C:\\Users\\al\\x", r"C:\\Users\\user1\\x"),
        (r"\/home\/root\/x", r"\/home\/user2\/x"),
        (f"'{ROOT_HOME}/x'", "'/home/user2/x'"),
        (f"{ROOT_HOME}", "/home/user2"),
        ("/data" + ROOT_HOME + "/x", "/data" + ROOT_HOME + "/x"),
        ("alice_gemm<Alice>", "user0_gemm<user0>"),
        ("malice alice2", "malice alice2"),
        ("/scratch/al/x al root test", "/scratch/user1/x al root test"),
        ("root@gpu01 al@gpu01:/x", "user2@host0 user1@host0:/x"),
        ("memcpy@@GLIBC_2.14 nn@layer.weight", "memcpy@@GLIBC_2.14 nn@layer.weight"),
        ("to bob.b@example.co.uk.", "to [email]."),
        ("https://me:pw@gpu01/x", "https://[removed]@host0/x"),
        ("10.1.2.3:80 172.16.0.9, tcp://8.8.8.8:1", "[address]:80 [address], tcp://[address]:1"),
        ("127.0.0.1 0.0.0.0 8.9.0.131 12.4.5.8 so.535.183.1.2", None),
        ("/opt/cuda/172.16.1.1/lib v192.168.0.1 300.1.2.3", None),
        ("fe80::1234:5678:9abc aa:bb:cc:dd:ee:ff", "[address] [address]"),
        ("0000:c1:00.0 std::abs<de::ad>::x 12:34:56", None),
        ("GPU-6161e0f3-67ae-555b-f069-dbe4b0f787e2", None),
        ("A=1\0B", "A=1\0B"),
        ("A_B=1\0CUDA_X=2\0junk", "CUDA_X=2"),
        ("LD_LIBRARY_PATH=/x", ""),
        ("SECRET_TOKEN=abcdefgh", ""),
        ("TOKEN=12\nKEY=1", "TOKEN=12\nKEY=1"),
        ("CUDA_A=1\nHOME=/x\nCUDA_B=~/x\nCUDA_C=alice\n", "CUDA_A=1\n"),
    ],
)
def test_rules(text: str, expected: str | None) -> None:
    rewriter = _rewriter(users=["alice", "al", "root"], hosts=["gpu01"])
    once = rewriter.text(text)
    assert once == (text if expected is None else expected)
    assert rewriter.text(once) == once


def test_common_names_cost_no_other_text_anything() -> None:
    rewriter = _rewriter(
        users=["root", "test", "a", "gemm", "kernel", "adam", "nvidia", "softmax"],
        hosts=["gpu", "localhost", "node", "a", "nccl"],
    )
    for text in [*KERNELS, *RANGES, "multi_tensor_adam", "/opt/nvidia/nsight-systems/2024.6.2/a"]:
        assert rewriter.text(text) == text
