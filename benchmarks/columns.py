"""Say which columns an audit reads of an export: the one list all benchmarks use.

The list is `overlapaudit.reader.audit_columns(path)`, and while the package has none, the default
below, less what the file does not hold.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
from pathlib import Path
from typing import TypeAlias

from child_process import run_child

Columns: TypeAlias = dict[str, list[str]]
"""Column names per table."""

_PLACE = ["deviceId", "contextId", "streamId", "correlationId", "globalPid"]
DEFAULT: Columns = {
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        "start", "end", *_PLACE, "demangledName", "shortName", "graphNodeId",
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [
        "start", "end", *_PLACE, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId",
    ],
    "CUPTI_ACTIVITY_KIND_MEMSET": ["start", "end", *_PLACE, "bytes", "graphNodeId"],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        "start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue",
    ],
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ["start", "end", *_PLACE, "syncType", "eventId"],
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [*_PLACE, "eventId"],
    "NVTX_EVENTS": [
        "start", "end", "eventType", "rangeId", "category", "text", "globalTid", "endGlobalTid",
        "textId", "domainId", "uint64Value", "int64Value",
    ],
    "StringIds": ["id", "value"],
}  # fmt: skip


def wanted_columns(path: Path) -> tuple[str, Columns]:
    """Give where the list is from and the list, asked of a process of its own."""
    answer = json.loads(run_child([sys.executable, __file__, str(path)]).output)
    return answer["source"], answer["columns"]


def _look_up(path: Path) -> tuple[str, Columns]:
    """Ask the reader, else take what the file holds of the default."""
    try:
        reader = importlib.import_module("overlapaudit.reader")
    except ModuleNotFoundError:
        reader = None
    if ask := getattr(reader, "audit_columns", None):
        return "overlapaudit.reader.audit_columns", ask(path)
    return "the default of benchmarks/columns.py", _present(path, DEFAULT)


def _present(path: Path, columns: Columns) -> Columns:
    """Keep the tables and columns the file holds; exports leave empty tables out."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    kept = {}
    for table, names in columns.items():
        held = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if held:
            kept[table] = [name for name in names if name in held]
    connection.close()
    return kept


if __name__ == "__main__":
    source, columns = _look_up(Path(sys.argv[1]))
    print(json.dumps({"source": source, "columns": columns}))
