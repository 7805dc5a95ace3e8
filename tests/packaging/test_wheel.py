"""A wheel built from the sdist installs in a fresh environment, and holds what it should."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import polars
import pytest

ROOT = Path(__file__).parents[2]
# Of those named, the ones that exist.
PACKAGES = {"overlapaudit", "overlapaudit_engine", "overlapaudit_nvtx", "overlapaudit_reports"}


def _run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and from the sdist the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


def test_contents(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    for needed in (
        "overlapaudit/classify/data/kernel_classes.json",
        "overlapaudit/classify/data/range_rules.json",
        "overlapaudit/rules/pages/OA001.md",
        "overlapaudit/model/audit.schema.json",
        "overlapaudit/py.typed",
        "overlapaudit_nvtx/py.typed",
        "overlapaudit/classify/data/range_rules.json",
        "overlapaudit/rules/pages/OA503.md",
        "overlapaudit_reports/html/page.js",
        "overlapaudit_reports/html/style.css",
        "overlapaudit_reports/py.typed",
    ):
        assert needed in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        parts = {member.name.partition("/")[2].partition("/")[0] for member in archive}
    assert {"overlapaudit", "reports", "instrumentation", "tests", "sample_traces"} <= parts


def test_installs_and_runs(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    # The dependencies come from this environment: what is tested is the wheel.
    _run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    site = _run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    _run(
        sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
        "--prefix", tmp_path / "venv", "--ignore-installed", wheel, cwd=tmp_path,
    )  # fmt: skip
    here = Path(polars.__file__).parents[1]
    links = Path(site) / "site-packages-of-the-tests"
    links.mkdir()
    for entry in here.iterdir():
        if "overlapaudit" not in entry.name:
            (links / entry.name).symlink_to(entry)
    (Path(site) / "dependencies.pth").write_text(f"{links}\n")
    program = tmp_path / "venv" / "bin" / "overlapaudit"
    sample = ROOT / "sample_traces" / "decode_steps.sqlite"
    document = json.loads(_run(program, "audit", sample, "--json", "-", cwd=tmp_path))
    assert document["coverage"]["operations"] == 420
    place = "import overlapaudit; print(overlapaudit.__file__)"
    assert site in _run(python, "-c", place, cwd=tmp_path)
    assert "OA001" in _run(program, "rules", cwd=tmp_path)
    assert "# OA002" in _run(program, "explain", "OA002", cwd=tmp_path)
