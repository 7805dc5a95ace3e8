"""Host threads that wait for communication: on its stream, or without any call (OA506)."""

from __future__ import annotations

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.blocked import BLOCKED, conformed, on_each_device
from overlapaudit.analysis.host_waits import SHORTEST_WAIT_NS
from overlapaudit.analysis.idle_time import OfDevice
from overlapaudit.analysis.lanes import has_time
from overlapaudit.model.kinds import Lane
from overlapaudit.model.trace import Trace

# How soon after a collective has ended a thread that waited for it goes on.
_WAKES_WITHIN_NS = 20_000
# A place in the program waits for communication if this share of its holes, and so many of them,
# end when a collective does. By chance no more than a fifth may.
_SHARE_OF_HOLES = 0.8
_FEWEST_HOLES = 3
_BY_CHANCE = 0.2


def on_comm_streams(trace: Trace, waits: pl.DataFrame) -> pl.Series:
    """Tell which waits were for a stream that runs nothing but communication.

    Args:
        trace: where to look.
        waits: HOST_WAITS.
    """
    lanes = trace.operations.select("process", "context", "stream", "lane")
    keys = ["process", "context", "stream"]
    comm = lanes.filter(pl.col("lane") == Lane.COMM.value).select(keys).unique()
    if comm.is_empty():
        return pl.repeat(False, waits.height, dtype=pl.Boolean, eager=True)
    mixed = lanes.join(comm, on=keys, how="semi").filter(pl.col("lane") == Lane.COMPUTE.value)
    alone = comm.join(mixed.select(keys).unique(), on=keys, how="anti")
    asked = waits.select(keys).join(
        alone.with_columns(found=pl.lit(True)), on=keys, how="left", maintain_order="left"
    )
    found: pl.Series = asked["found"].fill_null(False)
    return found


def silent_comm_waits(
    trace: Trace, holes: pl.DataFrame, idle: OfDevice, extent: pl.DataFrame
) -> pl.DataFrame:
    """Give the holes of the host in which a thread waited for a collective without any call.

    Libraries poll mapped memory for the counts that a peer sends; nothing of it is recorded. What
    shows it: hole after hole at one place of the program ends just when a collective ends that was
    launched before the hole began. One hole proves nothing.

    Args:
        trace: where to look.
        holes: HOLES.
        idle: from `idle_times`.
        extent: `process`, `device`, `first_ns`, `last_ns`: when the device works.

    Returns:
        BLOCKED.
    """
    comm = _collectives(trace)
    if comm.is_empty() or holes.is_empty():
        return pl.DataFrame(schema=BLOCKED)
    calls = trace.api_calls
    asked = (
        holes.with_columns(
            api=calls["name"].gather(holes["before"]).cast(pl.String),
            then=calls["name"].gather(holes["after"]).cast(pl.String),
        )
        .with_row_index("hole")
        .sort("end_ns")
    )
    ended = asked.join_asof(
        comm.select("process", "launched_ns", until_ns="end_ns").sort("until_ns"),
        left_on="end_ns",
        right_on="until_ns",
        by="process",
        check_sortedness=False,
    )
    waited = (
        (pl.col("end_ns") - pl.col("until_ns") <= _WAKES_WITHIN_NS)
        & (pl.col("until_ns") > pl.col("start_ns"))
        & (pl.col("launched_ns") < pl.col("start_ns"))
    ).fill_null(False)
    place = ["process", "thread", "api", "then"]
    found = (
        ended.with_columns(waited=waited)
        .filter(
            (pl.col("waited").mean().over(place) >= _SHARE_OF_HOLES)
            & (pl.col("waited").sum().over(place) >= _FEWEST_HOLES)
        )
        .filter("waited")
        .join(_rare(comm, extent), on="process", how="semi")
    )
    if found.is_empty():
        return pl.DataFrame(schema=BLOCKED)
    rows = found.sort("hole").select(
        "process", "thread", "start_ns", "end_ns", "api", call="before"
    )
    return conformed(
        on_each_device(rows, idle, extent, 0).with_columns(
            code=pl.lit("OA506"), inferred=pl.lit(True), calls=pl.lit(1)
        )
    )


def _collectives(trace: Trace) -> pl.DataFrame:
    """Give the communication kernels that lasted as long as a wait that counts."""
    operations = trace.operations
    rows = operations.select("process", "lane", "start_ns", "end_ns", call="api_row").filter(
        (pl.col("lane") == Lane.COMM.value) & has_time() & pl.col("call").is_not_null()
    )
    rows = rows.filter(pl.col("end_ns") - pl.col("start_ns") >= SHORTEST_WAIT_NS)
    return rows.with_columns(launched_ns=trace.api_calls["start_ns"].gather(rows["call"]))


def _rare(comm: pl.DataFrame, extent: pl.DataFrame) -> pl.DataFrame:
    """Keep the processes in which collectives end too rarely for holes to end then by chance."""
    kept = []
    for (process,), rows in comm.partition_by("process", as_dict=True).items():
        ends = rows["end_ns"].to_numpy()
        near = intervals.union(ends, ends + _WAKES_WITHIN_NS).length_ns
        mine = extent.filter(pl.col("process") == process)
        whole = np.ptp(mine.select("first_ns", "last_ns").to_numpy()) if mine.height else 0
        if whole > 0 and near <= _BY_CHANCE * whole:
            kept.append(process)
    return pl.DataFrame({"process": kept}, schema={"process": pl.Int64})
