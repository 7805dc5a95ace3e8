"""What kind of hidden wait each wait of the host is (codes OA501, OA502, OA503, OA510)."""

from __future__ import annotations

import polars as pl

from overlapaudit.model.kinds import LAUNCHING_KINDS, ApiKind, Direction, MemoryKind
from overlapaudit.model.trace import Trace

# A read-back of this size or less is one that the host reads to decide something.
SCALAR_BYTES = 4_096
# How soon after a copy's call a wait belongs to the copy.
_SOON_NS = 50_000

_SYNC_KINDS = [ApiKind.STREAM_SYNC.value, ApiKind.EVENT_SYNC.value, ApiKind.DEVICE_SYNC.value]


def codes_of(trace: Trace, waits: pl.DataFrame) -> pl.Series:
    """Give the code of each wait.

    Args:
        trace: where the waits are from.
        waits: HOST_WAITS.
    """
    kind = trace.api_calls["kind"].gather(waits["call"])
    copied = _copy_of(trace, waits)
    frame = copied.with_columns(kind.alias("kind"), name=_name_of(trace, waits))
    scalar = (pl.col("direction") == Direction.D2H.value) & (pl.col("bytes") <= SCALAR_BYTES)
    is_sync = pl.col("kind").is_in(_SYNC_KINDS)
    is_copy = pl.col("kind") == ApiKind.COPY.value
    codes: pl.Series = frame.select(
        pl.when(scalar.fill_null(False))
        .then(pl.lit("OA501"))
        .when(is_copy & ~pl.col("name").str.contains("Async"))
        .then(pl.lit("OA510"))
        .when(pl.col("pageable").fill_null(False))
        .then(pl.lit("OA503"))
        .when(is_sync)
        .then(pl.lit("OA502"))
        .otherwise(pl.lit("OA510"))
        .alias("code")
    ).to_series()
    return codes


def _name_of(trace: Trace, waits: pl.DataFrame) -> pl.Series:
    names: pl.Series = trace.api_calls["name"].gather(waits["call"]).cast(pl.String)
    return names


def _copy_of(trace: Trace, waits: pl.DataFrame) -> pl.DataFrame:
    """Give `direction`, `bytes` and `pageable` of the copy that each wait belongs to, else null.

    It is the wait's own copy, or that of the last launching call on the thread, if it was a copy
    and the wait came soon after it.
    """
    calls = trace.api_calls
    last = _last_launch(trace, waits)
    own = calls["kind"].gather(waits["call"]) == ApiKind.COPY.value
    belongs = pl.DataFrame({"own": own, "call": waits["call"], "last": last}).select(
        call=pl.when("own").then("call").otherwise("last")
    )
    return belongs.join(_copies(trace), on="call", how="left", maintain_order="left").drop("call")


def _last_launch(trace: Trace, waits: pl.DataFrame) -> pl.Series:
    calls = trace.api_calls
    launches = (
        calls.select(
            "thread", "kind", "end_ns", "start_ns",
            pl.int_range(pl.len(), dtype=pl.Int64).alias("launch"),
        )
        .filter(pl.col("kind").is_in(LAUNCHING_KINDS))
        .sort("start_ns", "launch")
    )  # fmt: skip
    numbered = waits.select("thread", "start_ns").with_row_index("wait").sort("start_ns")
    return (
        numbered.join_asof(
            launches.select("thread", "start_ns", "launch", launched_ns="end_ns"),
            on="start_ns",
            by="thread",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .sort("wait")
        .select(pl.when(pl.col("start_ns") - pl.col("launched_ns") < _SOON_NS).then("launch"))
        .to_series()
    )


def _copies(trace: Trace) -> pl.DataFrame:
    pageable = MemoryKind.PAGEABLE.value
    return (
        trace.operations.select("direction", "bytes", "source", "destination", call="api_row")
        .drop_nulls(["call", "direction"])
        .select(
            "call", "direction", "bytes",
            pageable=(pl.col("source") == pageable) | (pl.col("destination") == pageable),
        )
        .unique("call", keep="first", maintain_order=True)
    )  # fmt: skip
