"""Outputs are what they were; `python -m tests.update` accepts a change."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.contract import audit_schema
from tests.golden.cases import FILES, ROOT, SAMPLE, SCHEMA, dump, golden_files, write_sample

GOLDEN = golden_files()


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_golden(path: Path) -> None:
    assert GOLDEN[path]() == path.read_text(encoding="utf-8"), (
        f"{path.relative_to(ROOT)} has changed; if that is right: python -m tests.update"
    )


def test_no_golden_file_is_left_over() -> None:
    assert {*FILES.iterdir()} == {path for path in GOLDEN if path.parent == FILES}


def test_the_sample_is_what_its_maker_makes(tmp_path: Path) -> None:
    # Row by row: the bytes depend on the version of SQLite.
    write_sample(tmp_path / "made.sqlite")
    assert dump(tmp_path / "made.sqlite") == dump(SAMPLE)


@pytest.mark.parametrize("name", ["decode_steps.json", "troubled.json"])
def test_documents_follow_the_schema(name: str) -> None:
    document = json.loads((FILES / name).read_text())
    jsonschema.Draft202012Validator.check_schema(audit_schema())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    jsonschema.validate(document, audit_schema(closed=True))


def test_the_schema_refuses_what_is_none() -> None:
    document = json.loads((FILES / "decode_steps.json").read_text())
    for change in (
        {"format_version": 2},
        {"devices": [{**document["devices"][0], "busy_ns": "1"}]},
        {"findings": None},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, **change}, audit_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "more": 1}, audit_schema(closed=True))
