"""A trace: its fixed tables, read when first asked for, and what is known about the recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Protocol

import polars as pl

from overlapaudit.model.kinds import OpKind
from overlapaudit.model.tables import TableName


@dataclass(frozen=True, slots=True)
class InputIdentity:
    """Which file a trace is. `file` is a bare name, never a path."""

    file: str
    sha256: str
    tool: str
    tool_version: str | None
    schema_version: str | None
    duration_ns: int | None


@dataclass(frozen=True, slots=True)
class Recording:
    """How a trace was recorded; None where the export does not say.

    Attributes:
        operations: the kinds of GPU operation that the export has a table for.
        tables: the tables of the model that have rows in the export.
        columns_missing: TABLE.column of GPU work that every version has and this export lacks.
        collector_version: the nsys that recorded.
        driver_version: the NVIDIA driver.
        cuda_version: what the driver supports, "12.2".
        graph_mode: how CUDA graphs were recorded, "graph" or "node".
        memory_usage: whether device memory usage was recorded.
        backtraces: whether CUDA calls carry call stacks.
        cut_from: the window that a trimming tool cut this file from, if one did.
        traced: what was asked for (CAPTURE_EVENT_TYPE).
        began_utc_ns: when the session began, by the host's calendar clock.
    """

    operations: frozenset[OpKind]
    tables: frozenset[TableName]
    columns_missing: frozenset[str]
    collector_version: str | None
    driver_version: str | None
    cuda_version: str | None
    graph_mode: str | None
    memory_usage: bool | None
    backtraces: bool
    cut_from: str | None
    traced: tuple[str, ...] | None
    began_utc_ns: int | None


class TraceSource(Protocol):
    """Where a trace's tables come from."""

    def load(self, table: TableName) -> pl.DataFrame:
        """Give a table with its fixed columns; without rows if it was not recorded."""

    def identity(self) -> InputIdentity:
        """Say which file this is."""

    def recording(self) -> Recording:
        """Say how it was recorded."""

    def close(self) -> None:
        """Let go of the file."""


class Trace:
    """One export: what each GPU and each host thread did, as polars frames of fixed columns.

    The columns are in `overlapaudit.model.tables`. A table is read when first asked for, once,
    whichever threads ask. Use as a context manager, or call `close()`, to let go of the file.
    """

    def __init__(
        self,
        source: TraceSource,
        classify: Mapping[TableName, Callable[[pl.DataFrame], pl.DataFrame]],
    ) -> None:
        """Take over an open source; `classify` fills the columns that rules decide."""
        self._source = source
        self._classify = classify
        self._tables: dict[TableName, pl.DataFrame] = {}
        self._one_at_a_time = RLock()  # a source reads one file through one connection

    def table(self, name: TableName) -> pl.DataFrame:
        """Give a table by name."""
        with self._one_at_a_time:
            if name not in self._tables:
                frame = self._source.load(name)
                by_rules = self._classify.get(name)
                self._tables[name] = frame if by_rules is None else by_rules(frame)
            return self._tables[name]

    @property
    def identity(self) -> InputIdentity:
        """Which file this is."""
        return self._source.identity()

    @property
    def recording(self) -> Recording:
        """How it was recorded."""
        with self._one_at_a_time:
            return self._source.recording()

    @property
    def operations(self) -> pl.DataFrame:
        """What the devices did: kernels, copies, memsets, graph replays."""
        return self.table(TableName.OPERATIONS)

    @property
    def api_calls(self) -> pl.DataFrame:
        """CUDA runtime and driver calls."""
        return self.table(TableName.API_CALLS)

    @property
    def ranges(self) -> pl.DataFrame:
        """NVTX ranges and marks."""
        return self.table(TableName.RANGES)

    @property
    def waits(self) -> pl.DataFrame:
        """Explicit synchronisation: stream waits, event, stream and device syncs, queries."""
        return self.table(TableName.WAITS)

    @property
    def event_records(self) -> pl.DataFrame:
        """Records of CUDA events in streams."""
        return self.table(TableName.EVENT_RECORDS)

    @property
    def memory_events(self) -> pl.DataFrame:
        """Device memory given out and taken back."""
        return self.table(TableName.MEMORY_EVENTS)

    @property
    def metrics(self) -> pl.DataFrame:
        """Samples of GPU metrics."""
        return self.table(TableName.METRICS)

    def close(self) -> None:
        """Let go of the file."""
        self._source.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        identity = self.identity
        return f"<Trace {identity.file!r}, {identity.tool} {identity.tool_version or '(unknown)'}>"
