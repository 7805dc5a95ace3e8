"""The same collective on several ranks: how long each waited for the last one to enter it.

The n-th collective of a communicator on one rank is the n-th on every other (where the communicator
is not known: of one kind, on the n-th stream that has it). The wait of a rank lasts from its own
entry to the last one's; what is left is the transfer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.collectives import SYMMETRIC, collectives
from overlapaudit.analysis.rank_clocks import NO_OFFSET, Offset, fitted, matched
from overlapaudit.intervals import IntervalSet
from overlapaudit.model.trace import Trace

# Ends of one collective lie closer together than this on clocks that are aligned.
_SAME_END_NS = 50_000
# So many collectives must agree before clocks are called aligned.
_FEWEST = 4
_KEY = ["kind", "communicator", "stream_order"]
# These involve two ranks at a time: which, a trace does not say.
_PAIRWISE = "SendRecv"

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
    "late_ns": pl.Int64(),  # how much later than the first this rank entered
    "is_last": pl.Boolean(),
}


@dataclass(frozen=True, slots=True)
class RankTimes:
    """What several ranks tell about each other.

    Attributes:
        waits: PEER_WAITS.
        entered: communication kernels by (trace, process, device), kind and how many.
        offsets: of each trace, its clock minus that of the first; None: not comparable.
        residual_ns: how far apart the ends of one collective lie at most, for nine of ten; None
            where nothing tells.
        aligned: whether clocks of several files had to be aligned.
    """

    waits: pl.DataFrame
    entered: pl.DataFrame
    offsets: tuple[Offset | None, ...]
    residual_ns: int | None
    aligned: bool

    def spinning(self, trace: int) -> dict[tuple[int, int], IntervalSet]:
        """Give for each (process, device) of a trace when its collectives waited for peers."""
        mine = self.waits.filter((pl.col("trace") == trace) & (pl.col("wait_ns") > 0))
        return {
            (process, device): intervals.union(
                rows["start_ns"].to_numpy(), (rows["start_ns"] + rows["wait_ns"]).to_numpy()
            )
            for (process, device), rows in mine.partition_by(
                "process", "device", as_dict=True
            ).items()
        }


def rank_times(traces: Sequence[Trace]) -> RankTimes | None:
    """Match the collectives of all ranks; None where there is only one."""
    found = [
        collectives(trace).with_columns(trace=pl.lit(number, pl.Int64))
        for number, trace in enumerate(traces)
    ]
    rows = pl.concat(found)
    members = rows.select("trace", "process", "device").unique().sort("trace", "process", "device")
    processes = {
        (number, process)
        for number, trace in enumerate(traces)
        for process in trace.operations["process"].unique().drop_nulls()
    }
    if len(processes) < 2 and members.height < 2:
        return None
    rows = rows.join(
        members.with_row_index("member"), on=["trace", "process", "device"], maintain_order="left"
    )
    entered = rows.group_by("trace", "process", "device", "kind").len("count").sort(
        "trace", "process", "device", "kind"
    )  # fmt: skip
    starts = _began(traces)
    offsets, residual = _clocks(rows, len(traces), starts)
    comparable = rows.filter(
        pl.col("trace").is_in([n for n, offset in enumerate(offsets) if offset is not None])
    )
    return RankTimes(
        waits=_split(_on_one_clock(comparable, offsets)),
        entered=entered,
        offsets=offsets,
        residual_ns=residual,
        aligned=len(traces) > 1,
    )


def _began(traces: Sequence[Trace]) -> list[int]:
    """Give how much later than the first each trace's session began, as the calendar tells."""
    began = [trace.recording.began_utc_ns for trace in traces]
    first = began[0] if began else None
    return [0 if first is None or one is None else one - first for one in began]


def _clocks(
    rows: pl.DataFrame, traces: int, began: Sequence[int]
) -> tuple[tuple[Offset | None, ...], int | None]:
    """Align the clock of each trace with the first that has collectives."""
    symmetric = rows.filter(pl.col("kind").str.contains(SYMMETRIC.pattern))
    offsets: list[Offset | None] = [None] * traces
    first = int(symmetric["trace"].unique().sort().append(pl.Series([0]))[0])
    offsets[first] = NO_OFFSET
    residuals: list[int] = []
    reference = symmetric.filter(pl.col("trace") == first)
    for other in range(traces):
        if other == first:
            continue
        pairs = _same_key(reference, symmetric.filter(pl.col("trace") == other))
        fits = [_fit(here, there, began[other] - began[first]) for here, there in pairs]
        good = [fit for fit in fits if fit is not None and fit.residual_ns <= _SAME_END_NS]
        if good:
            best = max(good, key=lambda fit: (fit.collectives, -fit.residual_ns))
            offsets[other] = best
            residuals.append(best.residual_ns)
    residuals += [
        int(np.quantile(np.abs(there - here), 0.9))
        for trace in range(traces)
        for here, there in _inside_one(symmetric.filter(pl.col("trace") == trace))
    ]
    return tuple(offsets), max(residuals, default=None)


def _same_key(here: pl.DataFrame, there: pl.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give the ends of all pairs of members that have collectives of one key."""
    others = there.partition_by(*_KEY, as_dict=True)
    for key, rows in here.partition_by(*_KEY, as_dict=True).items():
        if key not in others:
            continue
        for mine in rows.partition_by("member"):
            for theirs in others[key].partition_by("member"):
                yield mine["end_ns"].to_numpy(), theirs["end_ns"].to_numpy()


def _fit(here: np.ndarray, there: np.ndarray, began: int) -> Offset | None:
    """Fit one pair of members; `began` serves where the distance alone cannot tell the shift."""
    mine, theirs = matched(here, there + began)
    return fitted(here[mine], there[theirs]) if len(mine) >= _FEWEST else None


def _inside_one(rows: pl.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give the ends of collectives that two members of one trace share."""
    for _, of_key in rows.partition_by(*_KEY, as_dict=True).items():
        members = of_key.partition_by("member", maintain_order=True)
        for theirs in members[1:]:
            here, there = members[0]["end_ns"].to_numpy(), theirs["end_ns"].to_numpy()
            mine, other = matched(here, there)
            if _ends_together(here[mine], there[other]):
                yield here[mine], there[other]


def _ends_together(here: np.ndarray, there: np.ndarray) -> bool:
    return len(here) > 0 and bool(np.median(np.abs(there - here)) <= _SAME_END_NS)


def _on_one_clock(rows: pl.DataFrame, offsets: Sequence[Offset | None]) -> pl.DataFrame:
    """Add `clock_ns`: what to add to times of a trace to have them by the first trace's clock."""
    parts = []
    for (trace,), of_trace in rows.partition_by("trace", as_dict=True).items():
        offset = offsets[trace]
        assert offset is not None
        # The knots lie on the first trace's clock; clocks drift so slowly that it does not matter
        # by which of the two the moment is told, once the constant part is off.
        constant = int(np.median(offset.offset_ns))
        there = of_trace["start_ns"].to_numpy() - constant
        parts.append(of_trace.with_columns(clock_ns=pl.Series(-offset.at(there))))
    return pl.concat(parts) if parts else rows.with_columns(clock_ns=pl.lit(0, pl.Int64))


def _split(rows: pl.DataFrame) -> pl.DataFrame:
    """Match the members' collectives, and split each into wait and transfer."""
    rows = rows.with_columns(
        entry_ns=pl.col("start_ns") + pl.col("clock_ns"),
        exit_ns=pl.col("end_ns") + pl.col("clock_ns"),
    )
    parts = [pl.DataFrame(schema=PEER_WAITS)]
    group = 0
    for (kind, *_), of_key in rows.partition_by(*_KEY, as_dict=True, maintain_order=True).items():
        members = of_key.partition_by("member", maintain_order=True)
        for cluster in _clusters(str(kind), members):
            parts.append(_waits(cluster, group))
            group += 1
    return pl.concat(parts)


def _clusters(kind: str, members: list[pl.DataFrame]) -> list[list[pl.DataFrame]]:
    """Put the members together that take part in the same collectives."""
    if len(members) < 2 or (kind == _PAIRWISE and len(members) > 2):
        return []
    if not SYMMETRIC.search(kind) or members[0]["communicator"][0] is not None:
        return [members] if _enter_together(members) else []
    clusters: list[list[pl.DataFrame]] = []
    for member in members:
        for cluster in clusters:
            here, there = cluster[0]["exit_ns"].to_numpy(), member["exit_ns"].to_numpy()
            mine, theirs = matched(here, there)
            if _ends_together(here[mine], there[theirs]):
                cluster.append(member)
                break
        else:
            clusters.append([member])
    return [cluster for cluster in clusters if len(cluster) > 1]


def _enter_together(members: list[pl.DataFrame]) -> bool:
    """Tell whether the n-th of all members ran at one time, mostly: else it is not the same."""
    if len({member.height for member in members}) != 1:
        return False
    last_entry = np.max([member["entry_ns"].to_numpy() for member in members], axis=0)
    first_exit = np.min([member["exit_ns"].to_numpy() for member in members], axis=0)
    return bool(np.mean(last_entry <= first_exit + _SAME_END_NS) >= 0.9)


def _waits(members: list[pl.DataFrame], group: int) -> pl.DataFrame:
    """Split the collectives that all members of a group took part in."""
    fewest = min(members, key=lambda member: member.height)
    cut = []
    for member in members:
        ends = fewest["exit_ns"].to_numpy(), member["exit_ns"].to_numpy()
        _, theirs = matched(*ends)
        cut.append(member[theirs])
    entries = np.array([member["entry_ns"].to_numpy() for member in cut])
    last, first = entries.max(axis=0), entries.min(axis=0)
    parts = []
    for member, entry in zip(cut, entries, strict=True):
        lasted = (member["end_ns"] - member["start_ns"]).to_numpy()
        parts.append(
            member.select("trace", "process", "device", "kind", "start_ns", "end_ns").with_columns(
                group=pl.lit(group, pl.Int64),
                number=pl.int_range(pl.len(), dtype=pl.Int64),
                wait_ns=pl.Series(np.minimum(last - entry, lasted)),
                late_ns=pl.Series(entry - first),
                is_last=pl.Series(entry == last),
            )
        )
    return pl.concat(parts).select([pl.col(name).cast(dtype) for name, dtype in PEER_WAITS.items()])


def spread_of(waits: pl.DataFrame) -> pl.DataFrame:
    """Give for each collective how far apart its entries lie, and its least transfer.

    Returns:
        `group`, `number`, `spread_ns`, `transfer_ns`.
    """
    return waits.group_by("group", "number").agg(
        pl.col("late_ns").max().alias("spread_ns"),
        (pl.col("end_ns") - pl.col("start_ns") - pl.col("wait_ns")).min().alias("transfer_ns"),
    )


def by_member(waits: pl.DataFrame) -> Mapping[tuple[int, int, int], pl.DataFrame]:
    """Give the waits of each (trace, process, device)."""
    return {
        (int(trace), int(process), int(device)): rows
        for (trace, process, device), rows in waits.partition_by(
            "trace", "process", "device", as_dict=True
        ).items()
    }
