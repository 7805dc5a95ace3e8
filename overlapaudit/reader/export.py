"""An open nsys export as the fixed tables of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import BinaryIO, Protocol

import polars as pl

from overlapaudit.model import tables
from overlapaudit.model.errors import InputError
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import InputIdentity, Recording
from overlapaudit.reader import (
    host_frames,
    identity,
    info_frames,
    operation_frames,
    range_frames,
    recording,
    schema,
)
from overlapaudit.reader.launch_join import api_rows
from overlapaudit.reader.names import lookup


class RawSource(Protocol):
    """Where the raw tables come from: a database or a folder."""

    @property
    def columns_of(self) -> dict[str, list[str]]:
        """Give the column names of each table."""

    def read(self, table: schema.Table) -> pl.DataFrame | None:
        """Read a table; None where there is none."""

    def has_rows(self, table: schema.Table) -> bool:
        """Tell whether a table is there and has a row."""

    def read_strings(self, table: schema.Table, ids: pl.Series) -> pl.DataFrame | None:
        """Read strings by id."""

    def close(self) -> None:
        """Let go of the file."""


class NsysExport:
    """A `TraceSource` over an nsys export."""

    def __init__(
        self,
        raw: RawSource,
        path: Path,
        files: Sequence[Path] = (),
        clean_up: Callable[[], None] | None = None,
        handle: BinaryIO | None = None,
    ) -> None:
        """Take over an open source.

        Args:
            raw: the tables.
            path: what the user named; gives the trace its name and its hash.
            files: the table files, where `path` is a folder.
            clean_up: called when the export is closed.
            handle: the open file, where `path` is a file that must not be opened once more.
        """
        if not schema.looks_like_an_export(raw.columns_of):
            raw.close()
            raise InputError(f"{path.name}: holds no table of an nsys export")
        self._raw = raw
        self._path = path
        self._clean_up = clean_up
        self._hash: Future[str] = identity.start(path, files, handle)
        self._facts = recording.export_facts(raw)
        self._recording: Recording | None = None
        self._calls: pl.DataFrame | None = None

    def identity(self) -> InputIdentity:
        """Say which file this is; waits for its hash."""
        try:
            sha256 = self._hash.result()
        except OSError as error:
            raise InputError(f"{self._path.name}: cannot be read ({error.strerror})") from error
        return InputIdentity(
            file=self._path.name,
            sha256=sha256,
            tool="nsys",
            tool_version=self._facts.tool_version,
            schema_version=self._facts.schema_version,
            duration_ns=self._facts.duration_ns,
        )

    def recording(self) -> Recording:
        """Say how it was recorded."""
        if self._recording is None:
            self._recording = recording.recording(self._raw, self._facts)
        return self._recording

    def load(self, table: TableName) -> pl.DataFrame:
        """Give a table of the trace; without rows where the export has none."""
        return _LOADERS[table](self)

    def close(self) -> None:
        """Let go of the file, when its hash is done: the hash reads through the same handle."""
        wait([self._hash])
        self._raw.close()
        if self._clean_up is not None:
            self._clean_up()

    def _operations(self) -> pl.DataFrame:
        offset = self._facts.offset_ns
        parts = [tables.empty(TableName.OPERATIONS)]
        kernels = self._raw.read(schema.KERNEL)
        if kernels is not None:
            parts.append(operation_frames.kernels(*self._kernel_names(kernels), offset))
            del kernels
        for table, shape in (
            (schema.MEMCPY, operation_frames.copies),
            (schema.MEMSET, operation_frames.memsets),
            (schema.GRAPH_TRACE, operation_frames.graphs),
            (schema.DECOMPRESS, operation_frames.decompressions),
        ):
            raw = self._raw.read(table)
            if raw is not None:
                parts.append(shape(raw, offset))
        frame = pl.concat(parts)
        return frame.with_columns(api_rows(frame, self._api_calls()))

    def _kernel_names(self, kernels: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Name the kernels: the demangled name, else the short one, else a placeholder."""
        if kernels["demangledName"].null_count():
            short = self._raw.read(schema.KERNEL_SHORT_NAME)
            if short is not None:
                ids = kernels["demangledName"].fill_null(short["shortName"])
                kernels = kernels.with_columns(ids)
        names = lookup(self._raw, kernels["demangledName"], placeholder="kernel")
        return kernels, names.select(
            pl.col("id").alias("demangledName"), pl.col("value").cast(pl.Categorical).alias("name")
        )

    def _kernel_shapes(self) -> pl.DataFrame:
        raw = self._raw.read(schema.KERNEL_SHAPE)
        if raw is None:
            return tables.empty(TableName.KERNEL_SHAPES)
        return raw.select(
            grid_x="gridX",
            grid_y="gridY",
            grid_z="gridZ",
            block_x="blockX",
            block_y="blockY",
            block_z="blockZ",
            registers="registersPerThread",
            static_shared_bytes="staticSharedMemory",
            dynamic_shared_bytes="dynamicSharedMemory",
            green_context=pl.when(pl.col("greenContextId") != 0).then("greenContextId"),
        )

    def _api_calls(self) -> pl.DataFrame:
        if self._calls is None:
            raw = self._raw.read(schema.RUNTIME)
            self._calls = (
                tables.empty(TableName.API_CALLS)
                if raw is None
                else host_frames.api_calls(self._raw, raw, self._facts.offset_ns)
            )
        return self._calls

    def _optional(
        self, name: TableName, table: schema.Table, shape: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> pl.DataFrame:
        raw = self._raw.read(table)
        return tables.empty(name) if raw is None else shape(raw)

    def _ranges(self) -> pl.DataFrame:
        return self._optional(
            TableName.RANGES,
            schema.NVTX,
            lambda raw: range_frames.ranges(
                self._raw, raw, self._facts.offset_ns, self._facts.duration_ns
            ),
        )

    def _payloads(self) -> pl.DataFrame:
        return self._optional(
            TableName.PAYLOADS,
            schema.NVTX_PAYLOAD,
            lambda raw: range_frames.payloads(self._raw, raw, self._facts.offset_ns),
        )

    def _waits(self) -> pl.DataFrame:
        return self._optional(
            TableName.WAITS,
            schema.SYNCHRONIZATION,
            lambda raw: host_frames.waits(raw, self._api_calls(), self._facts.offset_ns),
        )

    def _event_records(self) -> pl.DataFrame:
        return self._optional(
            TableName.EVENT_RECORDS,
            schema.CUDA_EVENT,
            lambda raw: host_frames.event_records(raw, self._api_calls(), self._facts.offset_ns),
        )

    def _memory_events(self) -> pl.DataFrame:
        return self._optional(
            TableName.MEMORY_EVENTS,
            schema.MEMORY,
            lambda raw: info_frames.memory_events(raw, self._facts.offset_ns),
        )

    def _metrics(self) -> pl.DataFrame:
        names = self._raw.read(schema.METRIC_NAME)
        return self._optional(
            TableName.METRICS,
            schema.METRIC,
            lambda raw: info_frames.metrics(raw, names, self._facts.offset_ns),
        )

    def _streams(self) -> pl.DataFrame:
        return info_frames.streams(self._raw.read(schema.STREAM), self._raw.read(schema.CONTEXT))

    def _gpus(self) -> pl.DataFrame:
        return self._optional(TableName.GPUS, schema.GPU, info_frames.gpus)

    def _devices(self) -> pl.DataFrame:
        return self._optional(TableName.DEVICES, schema.CUDA_DEVICE, info_frames.devices)

    def _processes(self) -> pl.DataFrame:
        return self._optional(TableName.PROCESSES, schema.PROCESS, info_frames.processes)

    def _threads(self) -> pl.DataFrame:
        return self._optional(
            TableName.THREADS, schema.THREAD, lambda raw: info_frames.threads(self._raw, raw)
        )

    def _overheads(self) -> pl.DataFrame:
        return self._optional(
            TableName.OVERHEADS,
            schema.OVERHEAD,
            lambda raw: host_frames.overheads(self._raw, raw, self._facts.offset_ns),
        )

    def _profiler_overheads(self) -> pl.DataFrame:
        return self._optional(
            TableName.PROFILER_OVERHEADS,
            schema.PROFILER_OVERHEAD,
            lambda raw: host_frames.profiler_overheads(self._raw, raw, self._facts.offset_ns),
        )

    def _os_calls(self) -> pl.DataFrame:
        return self._optional(
            TableName.OS_CALLS,
            schema.OS_RUNTIME,
            lambda raw: host_frames.os_calls(self._raw, raw, self._facts.offset_ns),
        )

    def _graph_nodes(self) -> pl.DataFrame:
        return self._optional(
            TableName.GRAPH_NODES,
            schema.GRAPH_NODE,
            lambda raw: info_frames.graph_nodes(raw, self._facts.offset_ns),
        )

    def _diagnostics(self) -> pl.DataFrame:
        return self._optional(TableName.DIAGNOSTICS, schema.DIAGNOSTIC, lambda raw: raw)

    def _mpi_ranks(self) -> pl.DataFrame:
        return self._optional(TableName.MPI_RANKS, schema.MPI_RANK, info_frames.mpi_ranks)


# TableName.X is loaded by NsysExport._x.
_LOADERS: dict[TableName, Callable[[NsysExport], pl.DataFrame]] = {
    name: getattr(NsysExport, f"_{name.value}") for name in TableName
}
