"""Calls that hold up the host while serving: allocation (OA505), loading and building (OA507)."""

from __future__ import annotations

import polars as pl

from overlapaudit.analysis.blocked import BLOCKED, conformed, on_each_device
from overlapaudit.analysis.idle_time import OfDevice
from overlapaudit.model.kinds import ApiKind
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import Trace

_SHORTEST_NS = 20_000
# A launch may take this long for other reasons; only then is it asked whether it loaded its kernel.
_LONG_LAUNCH_NS = 50_000
_CLOCKS_NS = 2_000

_CODE_OF_KIND = {
    ApiKind.ALLOCATE.value: "OA505",
    ApiKind.FREE.value: "OA505",
    ApiKind.MODULE_LOAD.value: "OA507",
    ApiKind.GRAPH_BUILD.value: "OA507",
}
# Types of overhead that nsys records for a call: compiling, module loading, lazy loading.
_LOADING = (2, 6, 7)


def blocking_calls(trace: Trace, idle: OfDevice, extent: pl.DataFrame) -> pl.DataFrame:
    """Give the calls of at least 20 µs that allocate, free, load, compile, capture or build.

    Args:
        trace: where to look.
        idle: from `idle_times`.
        extent: `process`, `device`, `first_ns`, `last_ns`: when the device works.

    Returns:
        BLOCKED.
    """
    calls = pl.concat(
        [_by_kind(trace), _captures(trace), _loading(trace), _first_launches(trace)], how="diagonal"
    )
    if calls.is_empty():
        return pl.DataFrame(schema=BLOCKED)
    found = on_each_device(_outermost(calls), idle, extent, _CLOCKS_NS)
    # A long launch to a busy device may have had other reasons: nothing shows that it loaded.
    sure = ~pl.col("inferred") | pl.col("from_ns").is_not_null()
    return conformed(found.filter(sure).with_columns(calls=pl.lit(1)))


def _rows(trace: Trace, keep: pl.Expr, *, at_least_ns: int = _SHORTEST_NS) -> pl.DataFrame:
    calls = trace.api_calls.select("kind", "thread", "start_ns", "end_ns", "process").with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("call")
    )
    found = calls.filter(keep & (pl.col("end_ns") - pl.col("start_ns") >= at_least_ns))
    names = trace.api_calls["name"].gather(found["call"]).cast(pl.String)
    return found.with_columns(api=names, inferred=pl.lit(False))


def _by_kind(trace: Trace) -> pl.DataFrame:
    found = _rows(trace, pl.col("kind").is_in(list(_CODE_OF_KIND)))
    # Stream-ordered allocation waits for nothing.
    found = found.filter(~pl.col("api").str.contains("Async"))
    return found.with_columns(
        code=pl.col("kind").cast(pl.String).replace_strict(_CODE_OF_KIND, return_dtype=pl.String)
    ).drop("kind")


def _captures(trace: Trace) -> pl.DataFrame:
    """Give each capture of a stream as one call: what is launched in it does not run."""
    kinds = [ApiKind.CAPTURE_BEGIN.value, ApiKind.CAPTURE_END.value]
    edges = _rows(trace, pl.col("kind").is_in(kinds), at_least_ns=0).sort("thread", "start_ns")
    begun = pl.col("kind") == ApiKind.CAPTURE_BEGIN.value
    # Captures of several streams may lie in each other: an end closes the last that is open.
    depth = pl.when(begun).then(1).otherwise(-1).cum_sum().over("thread")
    return (
        edges.with_columns(level=pl.when(begun).then(depth).otherwise(depth + 1))
        .with_columns(
            closes=pl.col("kind").shift(-1).over("thread", "level") == ApiKind.CAPTURE_END.value,
            end_ns=pl.col("end_ns").shift(-1).over("thread", "level"),
        )
        .filter(begun & pl.col("closes").fill_null(False))
        .filter(pl.col("end_ns") - pl.col("start_ns") >= _SHORTEST_NS)
        .drop("closes", "kind", "level")
        .with_columns(code=pl.lit("OA507"))
    )


def _loading(trace: Trace) -> pl.DataFrame:
    """Give the calls in which nsys saw the driver compile or load."""
    overheads = trace.table(TableName.OVERHEADS).filter(pl.col("type").is_in(_LOADING))
    if overheads.is_empty():
        return pl.DataFrame()
    thread = pl.col("thread")
    seen = overheads.select("correlation", (thread - (thread & 0xFFFFFF)).alias("process")).unique()
    named = trace.api_calls.select(
        "process", "correlation", pl.int_range(pl.len(), dtype=pl.Int64).alias("call")
    ).join(seen, on=["process", "correlation"], how="semi")
    return (
        _rows(trace, pl.int_range(pl.len(), dtype=pl.Int64).is_in(named["call"].implode()))
        .drop("kind")
        .with_columns(code=pl.lit("OA507"))
    )


def _first_launches(trace: Trace) -> pl.DataFrame:
    """Give long launches that were the first of their kernel or graph: they load or upload it."""
    launching = [ApiKind.LAUNCH.value, ApiKind.GRAPH_LAUNCH.value]
    long = _rows(trace, pl.col("kind").is_in(launching), at_least_ns=_LONG_LAUNCH_NS)
    if long.is_empty():
        return pl.DataFrame()
    what = trace.operations.select(
        "process", "name", call="api_row", graph=pl.coalesce("graph", pl.col("graph_node") // 2**32)
    ).drop_nulls("call")
    launched = what.join(long.select("call", "kind", "start_ns"), on="call")
    first = []
    for kind, key in ((ApiKind.LAUNCH, "name"), (ApiKind.GRAPH_LAUNCH, "graph")):
        mine = launched.filter(pl.col("kind") == kind.value).drop_nulls(key)
        same = what.join(mine.select("process", key).unique(), on=["process", key], how="semi")
        began = same.with_columns(
            began_ns=trace.api_calls["start_ns"].gather(same["call"])
        ).group_by("process", key).agg(pl.col("began_ns").min())  # fmt: skip
        first.append(
            mine.join(began, on=["process", key])
            .filter(pl.col("start_ns") == pl.col("began_ns"))
            .select("call")
        )
    return (
        long.join(pl.concat(first).unique(), on="call", how="semi", maintain_order="left")
        .drop("kind")
        .with_columns(code=pl.lit("OA507"), inferred=pl.lit(True))
    )


def _outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """Drop calls that were made inside another of them on their thread, or were found twice."""
    return (
        calls.sort("start_ns", "end_ns", "inferred", descending=[False, True, False])
        .filter(
            (
                pl.col("end_ns") > pl.col("end_ns").cum_max().shift(1).over("thread", "code")
            ).fill_null(True)
        )
    )  # fmt: skip
