"""Build the table of operations from the tables of GPU work."""

from __future__ import annotations

import polars as pl

from overlapaudit.model.kinds import Direction, MemoryKind, OpKind
from overlapaudit.model.tables import OPERATIONS, conform, enum_of
from overlapaudit.reader.schema import NOT_APPLICABLE

# ENUM_CUDA_MEMCPY_OPER. Arrays live on the device; unified-memory migrations are copies too.
_DIRECTIONS = {
    1: Direction.H2D,
    2: Direction.D2H,
    3: Direction.H2D,
    4: Direction.D2H,
    5: Direction.D2D,
    6: Direction.D2D,
    7: Direction.D2D,
    8: Direction.D2D,
    9: Direction.H2H,
    10: Direction.P2P,
    11: Direction.H2D,
    12: Direction.D2H,
    13: Direction.D2D,
}
_DEVICE_TO_DEVICE = 8
# ENUM_CUDA_MEM_KIND: nsys' own numbering, not CUPTI's.
MEMORY_KINDS = dict(enumerate(MemoryKind))

# Beyond this no session reaches (73 years), and the difference of two such times still fits.
_LATEST_NS = 1 << 61


def kernels(raw: pl.DataFrame, name_of: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the kernel table; `name_of` maps `demangledName` to `name`."""
    names = raw.select("demangledName").join(
        name_of, on="demangledName", how="left", maintain_order="left"
    )
    return conform(
        raw.select(
            *_common(OpKind.KERNEL, raw, offset_ns), names["name"], graph_node="graphNodeId"
        ),
        OPERATIONS,
    )


def copies(raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the copy table."""
    return conform(
        raw.select(
            *_common(OpKind.MEMCPY, raw, offset_ns),
            _direction().alias("direction"),
            "bytes",
            _coded("srcKind", MEMORY_KINDS, enum_of(MemoryKind)).alias("source"),
            _coded("dstKind", MEMORY_KINDS, enum_of(MemoryKind)).alias("destination"),
            graph_node="graphNodeId",
        ),
        OPERATIONS,
    )


def _direction() -> pl.Expr:
    """Tell which way a copy goes; one from device to device between two of them is a peer copy."""
    between = (pl.col("srcDeviceId") != pl.col("dstDeviceId")).fill_null(False)
    return (
        pl.when((pl.col("copyKind") == _DEVICE_TO_DEVICE) & between)
        .then(pl.lit(Direction.P2P.value, dtype=enum_of(Direction)))
        .otherwise(_coded("copyKind", _DIRECTIONS, enum_of(Direction)))
    )


def memsets(raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the memset table."""
    return conform(
        raw.select(*_common(OpKind.MEMSET, raw, offset_ns), "bytes", graph_node="graphNodeId"),
        OPERATIONS,
    )


def graphs(raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the graph table: each a whole replay."""
    return conform(raw.select(*_common(OpKind.GRAPH, raw, offset_ns), graph="graphId"), OPERATIONS)


def decompressions(raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the rows of the decompression engine's table."""
    return conform(
        raw.select(*_common(OpKind.DECOMPRESS, raw, offset_ns), bytes="sourceBytes"), OPERATIONS
    )


def applicable(column: str) -> pl.Expr:
    """Give a column of ids, null where nsys wrote "not applicable"."""
    return pl.when(pl.col(column) != NOT_APPLICABLE).then(pl.col(column)).alias(column)


def _common(kind: OpKind, raw: pl.DataFrame, offset_ns: int) -> list[pl.Expr]:
    start, end = pl.col("start"), pl.col("end")
    has_time = (
        ((start != 0) | (end != 0))
        & start.is_between(-_LATEST_NS, _LATEST_NS)
        & end.is_between(-_LATEST_NS, _LATEST_NS)
    )
    times = [start.alias("start_ns"), end.alias("end_ns")]
    if (
        offset_ns or not raw.select(has_time.fill_null(False).all()).item()
    ):  # else no column need be made anew
        times = [
            pl.when(has_time).then(start - offset_ns).alias("start_ns"),
            pl.when(has_time).then(end - offset_ns).alias("end_ns"),
        ]
    return [
        pl.lit(kind.value, dtype=enum_of(OpKind)).alias("kind"),
        pl.col("globalPid").alias("process"),
        pl.col("deviceId").alias("device"),
        pl.col("contextId").alias("context"),
        applicable("streamId").alias("stream"),
        *times,
        pl.col("correlationId").alias("correlation"),
    ]


def _coded(
    column: str, words: dict[int, Direction] | dict[int, MemoryKind], dtype: pl.Enum
) -> pl.Expr:
    """Translate a column of nsys' numbers; a number without a word becomes null."""
    old = list(words)
    new = pl.Series([word.value for word in words.values()], dtype=dtype)
    return pl.col(column).replace_strict(old, new, default=None, return_dtype=dtype)
