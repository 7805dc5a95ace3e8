"""What several ranks tell about each other, in the shape of the document."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from overlapaudit.analysis.peer_waits import RankTimes
from overlapaudit.analysis.trace_findings import Subject
from overlapaudit.model.document import Collectives, Ranks

_KEYS = ["trace", "process", "device", "kind"]


def ranks_of(subjects: Sequence[Subject], times: RankTimes) -> Ranks:
    """Sum up the collectives of each rank; `subjects` are the traces that `times` numbers."""
    matched = times.waits.group_by(_KEYS).agg(
        pl.len().alias("matched"),
        pl.col("wait_ns").sum(),
        (pl.col("end_ns") - pl.col("start_ns") - pl.col("wait_ns")).sum().alias("transfer_ns"),
        pl.col("is_last").sum().alias("entered_last"),
    )
    rows = times.entered.join(matched, on=_KEYS, how="left").rename({"count": "entered"})
    found = [
        Collectives(
            process=row["process"],
            rank=subjects[row["trace"]].rank_of[row["process"]],
            device=row["device"],
            kind=row["kind"],
            count=row["entered"],
            matched=row["matched"] or 0,
            wait_ns=row["wait_ns"],
            transfer_ns=row["transfer_ns"],
            entered_last=row["entered_last"],
        )
        for row in rows.rows(named=True)
    ]
    found.sort(key=lambda one: (one.rank, one.device, one.kind))
    return Ranks(_clocks(times), times.residual_ns, tuple(found))


def _clocks(times: RankTimes) -> str:
    if not times.aligned:
        return "one_session"
    communicating = set(times.entered["trace"])
    lost = [number for number in communicating if times.offsets[number] is None]
    return "not_comparable" if lost or len(communicating) < 2 else "aligned"
