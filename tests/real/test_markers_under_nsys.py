"""The markers under a real profiler: what the guide's program writes is what the analyser reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from overlapaudit_nvtx.vocabulary import LEVELS
from tests.guide import everything, program
from tests.oracle.markers_under_nsys import categories, ended_elsewhere, record, seen

pytestmark = pytest.mark.nsys
pytest.importorskip("nvtx", reason="nvtx is not installed")


@pytest.fixture(scope="module")
def export(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record the complete program once."""
    return record(nsys, program("everything"), tmp_path_factory.mktemp("markers"))


def test_everything_is_read_back(export: Path) -> None:
    assert seen(export) == everything()


def test_the_category_is_the_level(export: Path) -> None:
    assert categories(export) == {level: {level} for level in LEVELS}


def test_ranges_of_requests_end_on_other_threads(export: Path) -> None:
    assert ended_elsewhere(export) == Counter({"queue": 2})


def test_levels_that_are_off_are_not_there(nsys: Path, tmp_path: Path) -> None:
    found = seen(record(nsys, program("everything"), tmp_path, levels="iteration,request"))
    assert found == Counter(
        {one: count for one, count in everything().items() if one.level in ("iteration", "request")}
    )


def test_texts_that_are_not_ascii_survive(nsys: Path, tmp_path: Path) -> None:
    code = (
        "from overlapaudit_nvtx import layer\n"
        "with layer('attn', 2**40, consumes=['\\u6f22', 'a b']): pass\n"
    )
    (one,) = seen(record(nsys, code, tmp_path))
    assert (one.key, one.facts) == (2**40, "consumes=\u6f22,consumes=a b")
