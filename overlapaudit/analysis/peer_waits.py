"""The same collective on several ranks: how long each waited for the last one to enter it.

The n-th collective of a communicator on one rank is the n-th on every other (where the communicator
is not known: of one kind, on the n-th stream that has it). The wait of a rank lasts from its own
entry to the last one's; what is left is the transfer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.collectives import KEY, PAIRWISE, SYMMETRIC, collectives
from overlapaudit.analysis.rank_alignment import CLOSE_NS, SAME_END_NS, clocks
from overlapaudit.analysis.rank_clocks import Offset, same_moments
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.trace import Trace

_MEMBER = ["trace", "process", "device"]

# One row for each rank of each matched collective. Times are by the clock of the rank's own trace.
PEER_WAITS: dict[str, pl.DataType] = {
    "trace": pl.Int64(),
    "process": pl.Int64(),
    "device": pl.Int64(),
    "kind": pl.String(),
    "group": pl.Int64(),  # ranks that take part in the same collectives
    "number": pl.Int64(),  # the how-manieth of its group
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "wait_ns": pl.Int64(),  # 0 for the last to enter
    "spread_ns": pl.Int64(),  # between the first entry and the last
    "transfer_ns": pl.Int64(),  # the shortest of any rank
    "late_ns": pl.Int64(),  # how much later than the first this rank entered
    "is_last": pl.Boolean(),
}


@dataclass(frozen=True, slots=True)
class RankTimes:
    """What several ranks tell about each other.

    Attributes:
        waits: PEER_WAITS.
        alone: communication kernels that were not matched: `trace`, `process`, `device`,
            `start_ns`, `end_ns`.
        entered: communication kernels by (trace, process, device), kind and how many.
        offsets: of each trace, its clock minus that of the first; None: not comparable.
        residual_ns: how far apart the ends of one collective lie at most, for nine of ten; None
            where nothing tells.
        aligned: whether clocks of several files had to be aligned.
    """

    waits: pl.DataFrame
    alone: pl.DataFrame
    entered: pl.DataFrame
    offsets: tuple[Offset | None, ...]
    residual_ns: int | None
    aligned: bool

    def spinning(self, trace: int) -> dict[tuple[int, int], IntervalSet]:
        """Give for each (process, device) of a trace when it only waited for its peers.

        Time in which another of its collectives transferred, or did what is not known, is left out.
        """
        mine = self.waits.filter((pl.col("trace") == trace) & (pl.col("wait_ns") > 0))
        return {
            (process, device): self.only_waiting(trace, process, device, rows)
            for (process, device), rows in mine.partition_by(
                "process", "device", as_dict=True
            ).items()
        }

    def only_waiting(
        self, trace: int, process: int, device: int, rows: pl.DataFrame
    ) -> IntervalSet:
        """Give when a device waited in these rows of `waits`, and in no other did transfer."""
        here = (
            (pl.col("trace") == trace)
            & (pl.col("process") == process)
            & (pl.col("device") == device)
        )  # fmt: skip
        moved = pl.concat(
            [
                self.waits.filter(here).select(
                    pl.col("start_ns") + pl.col("wait_ns"), "end_ns"
                ),
                self.alone.filter(here).select("start_ns", "end_ns"),
            ]
        )  # fmt: skip
        start = rows["start_ns"].to_numpy()
        return intervals.subtract(
            intervals.union(start, start + rows["wait_ns"].to_numpy()),
            intervals.union(moved["start_ns"].to_numpy(), moved["end_ns"].to_numpy()),
        )


def rank_times(traces: Sequence[Trace]) -> RankTimes | None:
    """Match the collectives of all ranks; None where there is only one."""
    found = [
        collectives(trace).with_columns(trace=pl.lit(number, pl.Int64))
        for number, trace in enumerate(traces)
    ]
    rows = pl.concat(found)
    members = rows.select(_MEMBER).unique().sort(_MEMBER)
    processes = {
        (number, process)
        for number, trace in enumerate(traces)
        for process in trace.operations["process"].unique().drop_nulls()
    }
    if len(processes) < 2 and members.height < 2:
        return None
    rows = rows.join(members.with_row_index("member"), on=_MEMBER, maintain_order="left")
    rows = rows.with_row_index("row")
    entered = rows.group_by(*_MEMBER, "kind").len("count").sort(*_MEMBER, "kind")
    symmetric = rows.filter(pl.col("kind").str.contains(SYMMETRIC.pattern))
    offsets, residual = clocks(symmetric, _began(traces))
    comparable = rows.filter(
        pl.col("trace").is_in([n for n, offset in enumerate(offsets) if offset is not None])
    )
    waits = _split(_on_one_clock(comparable, offsets), residual)
    return RankTimes(
        waits=waits.select([pl.col(name).cast(dtype) for name, dtype in PEER_WAITS.items()]),
        alone=rows.join(waits, on="row", how="anti").select(*_MEMBER, "start_ns", "end_ns"),
        entered=entered,
        offsets=offsets,
        residual_ns=residual,
        aligned=len(traces) > 1,
    )


def _began(traces: Sequence[Trace]) -> list[int | None]:
    """Give when each trace's session began, by the calendar."""
    return [trace.recording.began_utc_ns for trace in traces]


def _on_one_clock(rows: pl.DataFrame, offsets: Sequence[Offset | None]) -> pl.DataFrame:
    """Add `entry_ns` and `exit_ns`: the times by the clock that the offsets refer to."""
    parts = [rows.clear().with_columns(clock_ns=pl.lit(0, pl.Int64))]
    for (trace,), of_trace in rows.partition_by("trace", as_dict=True, maintain_order=True).items():
        offset = offsets[trace]
        assert offset is not None
        # The knots lie on the other clock; clocks drift so slowly that it does not matter by which
        # of the two the moment is told, once the constant part is off.
        constant = int(np.median(offset.offset_ns))
        there = of_trace["start_ns"].to_numpy() - constant
        parts.append(of_trace.with_columns(clock_ns=pl.Series(-offset.at(there))))
    return pl.concat(parts).with_columns(
        entry_ns=pl.col("start_ns") + pl.col("clock_ns"),
        exit_ns=pl.col("end_ns") + pl.col("clock_ns"),
    )


def _split(rows: pl.DataFrame, residual_ns: int | None) -> pl.DataFrame:
    """Match the members' collectives, and split each into wait and transfer."""
    parts = [pl.DataFrame(schema={"row": rows.schema["row"], **PEER_WAITS})]
    group = 0
    for (kind, *_), of_key in rows.partition_by(*KEY, as_dict=True, maintain_order=True).items():
        members = of_key.partition_by("member", maintain_order=True)
        for cluster in _clusters(str(kind), members, residual_ns or 0):
            parts.append(_waits(cluster, group))
            group += 1
    return pl.concat(parts)


def _clusters(
    kind: str, members: list[pl.DataFrame], residual_ns: int
) -> Iterator[list[pl.DataFrame]]:
    """Put the members together that take part in the same collectives, row by row."""
    if len(members) < 2 or (kind == PAIRWISE and len(members) > 2):
        return
    if not SYMMETRIC.search(kind) or members[0]["communicator"][0] is not None:
        together = _side_by_side(members, None)
        if _ran_together(together, residual_ns):
            yield together
        return
    clusters: list[list[pl.DataFrame]] = []
    for member in members:
        for cluster in clusters:
            pair = _side_by_side([cluster[0], member], SAME_END_NS + residual_ns)
            if _ended_together(pair, residual_ns) and _ran_together(pair, residual_ns):
                cluster.append(member)
                break
        else:
            clusters.append([member])
    for cluster in clusters:
        together = _side_by_side(cluster, SAME_END_NS + residual_ns)
        if len(cluster) > 1 and together[0].height:
            yield together


def _side_by_side(members: Sequence[pl.DataFrame], within_ns: int | None) -> list[pl.DataFrame]:
    """Give what all members took part in: the n-th row of each is the same collective."""
    first = members[0]["exit_ns"].to_numpy()
    index = [np.arange(len(first))] + [
        same_moments(first, member["exit_ns"].to_numpy(), within_ns) for member in members[1:]
    ]
    everywhere = np.all([one >= 0 for one in index], axis=0)
    return [member[one[everywhere]] for member, one in zip(members, index, strict=True)]


def _ended_together(members: Sequence[pl.DataFrame], residual_ns: int) -> bool:
    here, there = (member["exit_ns"].to_numpy() for member in members)
    close = max(CLOSE_NS, residual_ns)
    return len(here) > 0 and bool(np.median(np.abs(there - here)) <= close)


def _ran_together(members: Sequence[pl.DataFrame], residual_ns: int) -> bool:
    """Tell whether nobody had left before all had entered, mostly: else it is not the same."""
    if not members[0].height:
        return False
    last_entry = np.max([member["entry_ns"].to_numpy() for member in members], axis=0)
    first_exit = np.min([member["exit_ns"].to_numpy() for member in members], axis=0)
    close = max(CLOSE_NS, residual_ns)
    return bool(np.mean(last_entry <= first_exit + close) >= 0.9)


def _waits(members: Sequence[pl.DataFrame], group: int) -> pl.DataFrame:
    """Split the collectives of a group, in which the n-th of all members is the same."""
    entries = np.array([member["entry_ns"].to_numpy() for member in members])
    last, first = entries.max(axis=0), entries.min(axis=0)
    lasted = np.array([(member["end_ns"] - member["start_ns"]).to_numpy() for member in members])
    waits = np.minimum(last - entries, lasted)
    spread = pl.Series(last - first)
    transfer = pl.Series((lasted - waits).min(axis=0))
    parts = []
    for member, entry, wait in zip(members, entries, waits, strict=True):
        parts.append(
            member.select("row", *_MEMBER, "kind", "start_ns", "end_ns").with_columns(
                group=pl.lit(group, pl.Int64),
                number=pl.int_range(pl.len(), dtype=pl.Int64),
                wait_ns=pl.Series(wait),
                spread_ns=spread,
                transfer_ns=transfer,
                late_ns=pl.Series(entry - first),
                is_last=pl.Series(entry == last),
            )
        )
    return pl.concat(parts).select("row", *PEER_WAITS)
