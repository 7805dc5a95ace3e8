"""Who waited for whom in collectives, and whether the ranks' clocks can be compared."""

from __future__ import annotations

from overlapaudit.model.document import Ranks
from overlapaudit_reports.figures import count, duration
from overlapaudit_reports.html.markup import Section, joined, note, table, tag
from overlapaudit_reports.html.report import Report
from overlapaudit_reports.wording import clocks

_MOST = 500
_HEAD = ("rank", "device", "kind", "kernels", "matched", "wait", "transfer", "entered last")


def section(report: Report) -> Section | None:
    """List the collectives of each rank; left out where there is one rank."""
    ranks = report.document.ranks
    if ranks is None:
        return None
    rows = [
        (
            str(one.rank),
            str(one.device),
            one.kind,
            count(one.count),
            count(one.matched),
            duration(one.wait_ns),
            duration(one.transfer_ns),
            count(one.entered_last),
        )
        for one in ranks.collectives
    ]
    said = tag("p", clocks(ranks))
    if not rows:
        return Section("ranks", "Ranks", joined([said, tag("p", "No communication kernels.")]))
    return Section(
        "ranks",
        "Ranks",
        joined([said, table(_HEAD, rows, texts=3, most=_MOST), note(_explained(ranks))]),
    )


def _explained(ranks: Ranks) -> str:
    unknown = any(not one.matched for one in ranks.collectives)
    return (
        "matched: known to be the same collective on other ranks. wait: until the last rank had "
        "entered; transfer: the rest."
        + (" Where none is matched, a wait cannot be told from a transfer." if unknown else "")
    )
