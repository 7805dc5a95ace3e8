"""The JSON Schema of `audit --json`, derived from the dataclasses that are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from overlapaudit.model.document import FORMAT_VERSION, AuditDocument


def audit_schema(*, closed: bool = False) -> dict[str, Any]:
    """Derive the schema: every field is always there.

    Args:
        closed: allow no other fields. The published schema does allow them, since fields may be
            added without a new format version.
    """
    schema = TypeAdapter(AuditDocument).json_schema(mode="serialization")
    for definition in _objects(schema):
        definition["required"] = sorted(definition["properties"])
        if closed:
            definition["additionalProperties"] = False
        for field in definition["properties"].values():
            field.pop("default", None)
            field.pop("title", None)
    schema["properties"]["format_version"]["const"] = FORMAT_VERSION
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "overlapaudit audit"
    return schema


def _objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for definition in (schema, *schema["$defs"].values()):
        if "properties" in definition:
            yield definition
