"""Build the table of NVTX ranges and marks."""

from __future__ import annotations

import polars as pl

from overlapaudit.model.kinds import RangeKind
from overlapaudit.model.tables import PAYLOADS, RANGES, conform, enum_of
from overlapaudit.reader.host_frames import process_of
from overlapaudit.reader.names import StringTable, lookup

# ENUM_NSYS_EVENT_TYPE
_KINDS = {34: RangeKind.MARK, 59: RangeKind.PUSH_POP, 60: RangeKind.START_END}
_DOMAIN_CREATED = 75


def ranges(
    source: StringTable, raw: pl.DataFrame, offset_ns: int, duration_ns: int | None
) -> pl.DataFrame:
    """Shape the rows of the NVTX table that are ranges or marks.

    A range that was still open at the end of the capture has no end here, whether nsys left it
    empty or wrote the session's duration.
    """
    raw = _with_text(source, raw)
    kind = pl.col("eventType").replace_strict(
        list(_KINDS),
        pl.Series([kind.value for kind in _KINDS.values()], dtype=enum_of(RangeKind)),
        default=None,
        return_dtype=enum_of(RangeKind),
    )
    end = pl.col("end") - offset_ns
    open_at_end = pl.lit(False) if duration_ns is None else end == duration_ns
    frame = (
        raw.with_columns(kind.alias("kind"), process_of("globalTid").alias("process"))
        .filter(pl.col("kind").is_not_null())
        .join(_domains(raw), on=["process", "domainId"], how="left", maintain_order="left")
        .select(
            "kind",
            "domain",
            "process",
            "category",
            pl.col("text").fill_null(""),
            domain_id="domainId",
            thread="globalTid",
            # NULL: closed on the thread that opened it.
            end_thread=pl.coalesce("endGlobalTid", "globalTid"),
            start_ns=pl.col("start") - offset_ns,
            end_ns=pl.when(~open_at_end & (pl.col("kind") != RangeKind.MARK.value)).then(end),
            range_id="rangeId",
            # uint64 payloads of 2^63 and more have wrapped, as in the export itself.
            payload=pl.coalesce("uint64Value", "int64Value", "uint32Value", "int32Value"),
            payload_real=pl.coalesce("doubleValue", "floatValue"),
        )
    )
    return conform(frame, RANGES)


def payloads(source: StringTable, raw: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    """Shape the decoded payloads of ranges; rows without one drop out."""
    raw = raw.filter(pl.col("jsonText").is_not_null() | pl.col("jsonTextId").is_not_null())
    strings = lookup(source, raw["jsonTextId"], placeholder=None).select(
        pl.col("id").alias("jsonTextId"), pl.col("value").alias("registered")
    )
    joined = raw.join(strings, on="jsonTextId", how="left", maintain_order="left")
    return conform(
        joined.select(
            thread="globalTid",
            domain_id="domainId",
            start_ns=pl.col("start") - offset_ns,
            json=pl.coalesce("registered", "jsonText"),
        ),
        PAYLOADS,
    )


def _with_text(source: StringTable, raw: pl.DataFrame) -> pl.DataFrame:
    """Resolve registered strings; one file mixes them with plain text."""
    strings = lookup(source, raw["textId"], placeholder=None).select(
        pl.col("id").alias("textId"), pl.col("value").alias("registered")
    )
    joined = raw.join(strings, on="textId", how="left", maintain_order="left")
    # Number 0 is no string of anybody's: what older exporters write where there is none.
    first = pl.when((pl.col("textId") != 0) | pl.col("text").is_null()).then("registered")
    return joined.with_columns(pl.coalesce(first, "text").alias("text")).drop("registered")


def _domains(raw: pl.DataFrame) -> pl.DataFrame:
    """Name the domains; their numbers count per process."""
    return (
        raw.filter(pl.col("eventType") == _DOMAIN_CREATED)
        .select(process_of("globalTid").alias("process"), "domainId", domain="text")
        .unique(["process", "domainId"], keep="first", maintain_order=True)
    )
