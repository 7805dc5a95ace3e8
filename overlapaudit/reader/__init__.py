"""Open what nsys wrote, whatever its form and version, as the tables of a trace."""

from __future__ import annotations

import re
from pathlib import Path

from overlapaudit.model.errors import InputError
from overlapaudit.model.progress import Progress, silent
from overlapaudit.reader import nsys_report, schema
from overlapaudit.reader.directory_source import DirectorySource, table_files
from overlapaudit.reader.export import NsysExport
from overlapaudit.reader.sqlite_guard import MAGIC
from overlapaudit.reader.sqlite_source import SqliteSource

__all__ = ["audit_columns", "find_inputs", "open_export"]

_AUDITED = (
    schema.KERNEL,
    schema.MEMCPY,
    schema.MEMSET,
    schema.GRAPH_TRACE,
    schema.DECOMPRESS,
    schema.RUNTIME,
    schema.SYNCHRONIZATION,
    schema.CUDA_EVENT,
    schema.PROFILER_OVERHEAD,
    schema.NVTX,
    schema.GRAPH_NODE,
)


def open_export(path: Path, *, progress: Progress = silent) -> NsysExport:
    """Open one export: an SQLite file, a parquetdir or arrowdir, or a report (through nsys).

    Raises:
        InputError: there is none, or it cannot be used.
    """
    try:
        if path.is_dir():
            return NsysExport(DirectorySource(path, progress=progress), path, table_files(path))
        if path.suffix in nsys_report.SUFFIXES and not _is_sqlite(path):
            exported, clean_up = nsys_report.export(path)
            return NsysExport(SqliteSource(exported, progress=progress), path, clean_up=clean_up)
        source = SqliteSource(path, progress=progress)
        return NsysExport(source, path, handle=source.handle)
    except FileNotFoundError as error:
        raise InputError(f"{path.name}: no such file") from error
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror})") from error


def find_inputs(path: Path) -> list[Path]:
    """Give the exports that a path stands for: itself, or those in a folder of ranks.

    A folder is told by what it holds: table files make it one export, anything else is looked
    through for exports, one level deep, in the order of their names.

    Raises:
        InputError: there are none.
    """
    if not path.exists():
        raise InputError(f"{path.name}: no such file")
    if not path.is_dir():
        if not path.is_file():
            raise InputError(f"{path.name}: not a regular file")
        if path.suffix == nsys_report.UNFINISHED_SUFFIX:
            raise _not_finalised(path)
        return [path]
    try:
        if table_files(path):
            return [path]
        finished = {entry.stem for entry in path.iterdir() if _is_export(entry)}
        for entry in sorted(path.glob(f"*{nsys_report.UNFINISHED_SUFFIX}"), key=_natural):
            if entry.stem not in finished:
                raise _not_finalised(entry)  # a rank that would be missing
        found = [entry for entry in sorted(path.iterdir(), key=_natural) if _is_export(entry)]
        # A report beside its own export is the same rank.
        exported = {entry.stem for entry in found if entry.suffix not in nsys_report.SUFFIXES}
        found = [
            entry
            for entry in found
            if entry.suffix not in nsys_report.SUFFIXES or entry.stem not in exported
        ]
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror})") from error
    if not found:
        raise InputError(f"{path.name}: a folder without an nsys export in it")
    return found


def audit_columns(path: Path) -> dict[str, list[str]]:
    """Give the columns of each table of an SQLite export that an audit reads in bulk."""
    source = SqliteSource(path)
    try:
        found = {}
        for table in _AUDITED:
            name = schema.physical_name(table, source.columns_of)
            if name is not None:
                present = schema.present_columns(table, source.columns_of[name])
                found[name] = list(present.values())
        return found
    finally:
        source.close()


def _not_finalised(path: Path) -> InputError:
    return InputError(
        f"{path.name}: the capture was not finalised, so there is no report in it; record again "
        "and let nsys end by itself"
    )


def _is_export(entry: Path) -> bool:
    if entry.is_dir():
        return bool(table_files(entry))
    if not entry.is_file():
        return False
    return entry.suffix in nsys_report.SUFFIXES or _is_sqlite(entry)


def _is_sqlite(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(16) == MAGIC


def _natural(path: Path) -> list[str | int]:
    """Order names so that rank10 comes after rank9; text and numbers alternate."""
    parts = re.split(r"([0-9]+)", path.name)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]
