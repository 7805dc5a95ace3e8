"""Findings about ranks: clocks that cannot be compared (OA009), late ranks (OA703)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from overlapaudit import intervals
from overlapaudit.analysis.collectives import PAIRWISE
from overlapaudit.analysis.idle_time import spins_alone
from overlapaudit.analysis.lanes import DeviceActivity
from overlapaudit.analysis.peer_waits import RankTimes
from overlapaudit.analysis.price import SMALLEST_COST_NS, weigh
from overlapaudit.analysis.trace_findings import Subject
from overlapaudit.model.findings import Finding, Where
from overlapaudit.model.kinds import Confidence, Severity
from overlapaudit.rules.catalogue import RULES
from overlapaudit.rules.policy import Policy


def findings(subjects: Sequence[Subject], times: RankTimes | None, policy: Policy) -> list[Finding]:
    """Judge the ranks of one run together; `subjects` are the traces that `times` numbers."""
    if times is None:
        return []
    found = [*_clocks(subjects, times), *_skew(subjects, times, policy)]
    return [finding for finding in found if policy.reports(finding.code)]


def _clocks(subjects: Sequence[Subject], times: RankTimes) -> Iterator[Finding]:
    if not times.aligned:
        return
    rule = RULES["OA009"]
    communicates = set(times.entered["trace"])
    for number, (subject, offset) in enumerate(zip(subjects, times.offsets, strict=True)):
        if offset is not None or number not in communicates:
            continue
        entered = times.entered.filter(pl.col("trace") == number)
        yield Finding(
            code=rule.code,
            slug=rule.slug,
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            where=subject.whole(),
            evidence={
                "communication_kernels": int(entered["count"].sum()),
                "kinds": entered["kind"].unique().sort().to_list(),
            },
            layer=rule.layer,
            tuning_step=rule.tuning_step,
            next_step="record ranks that share all-reduces, all-gathers or all-to-alls in one "
            "capture range, so that their ends tell how far the clocks are apart; until then "
            "compare nothing across this rank and the others",
        )


def _skew(subjects: Sequence[Subject], times: RankTimes, policy: Policy) -> Iterator[Finding]:
    """Find the ranks that entered collectives later than their peers by more than work varies."""
    waits = _with_stages(times)
    share = policy.threshold("OA703", "lateness_share")
    residual = max(times.residual_ns or 0, 1)
    skewed = waits.filter(
        # Who receives has nothing to do until it is sent something: nobody is late.
        (pl.col("kind") != PAIRWISE)
        & (pl.col("spread_ns") >= SMALLEST_COST_NS)
        & (pl.col("spread_ns") > 2 * residual)
        & (pl.col("spread_ns") > pl.col("transfer_ns"))
        & (pl.col("spread_ns") >= share * pl.col("stage_ns")).fill_null(True)
    )
    if skewed.is_empty():
        return
    late = skewed.filter("is_last").select(
        "group", "number", late_trace="trace", late_process="process", late_device="device"
    ).unique(["group", "number"], keep="first", maintain_order=True)  # fmt: skip
    waiting = skewed.filter(~pl.col("is_last")).join(late, on=["group", "number"])
    keys = ["late_trace", "late_process", "late_device"]
    for (trace, process, device), rows in waiting.partition_by(
        keys, as_dict=True, maintain_order=True
    ).items():
        mine = skewed.filter(
            (pl.col("trace") == trace)
            & (pl.col("process") == process)
            & (pl.col("device") == device)
        ).join(rows.select("group", "number").unique(), on=["group", "number"], how="semi")
        by_chance = _by_chance(mine, skewed)
        finding = _late_rank(subjects, mine, rows, times, by_chance)
        if finding is not None:
            yield finding


def _with_stages(times: RankTimes) -> pl.DataFrame:
    """Add the time since the ranks last met (`stage_ns`)."""
    waits = times.waits
    entry = pl.col("start_ns") + pl.col("wait_ns")
    met = (
        waits.with_columns(met_ns=entry, left_ns=pl.col("end_ns"))
        .sort("trace", "process", "device", "start_ns")
        .with_columns(
            stage_ns=pl.col("met_ns")
            - pl.col("left_ns").cum_max().shift(1).over("trace", "process", "device")
        )
    )
    return met.drop("met_ns", "left_ns")


def _by_chance(mine: pl.DataFrame, skewed: pl.DataFrame) -> bool:
    """Tell whether a rank came last no more often than if it were another one each time."""
    of_groups = skewed.filter(pl.col("group").is_in(mine["group"].unique().implode()))
    met = of_groups.select("group", "number").unique().height
    ranks = of_groups.group_by("group", "number").len()["len"].median()
    assert isinstance(ranks, float)
    chance = 1 / ranks
    # Three standard deviations of the share in which one of so many comes last.
    deviation = float((chance * (1 - chance) / met) ** 0.5)
    return mine.height / met < min(1.0, chance + 3 * deviation)


def _late_rank(
    subjects: Sequence[Subject],
    late: pl.DataFrame,
    rows: pl.DataFrame,
    times: RankTimes,
    by_chance: bool,
) -> Finding | None:
    """Give the finding about the rank of the rows `late`, for which those of `rows` waited."""
    trace, process, device = late.select("trace", "process", "device").row(0)
    worst, worst_cost = None, intervals.EMPTY
    for (number, waiter, waits_on), mine in rows.partition_by(
        "trace", "process", "device", as_dict=True, maintain_order=True
    ).items():
        subject = subjects[int(number)]
        activity = _activity(subject, int(waiter), int(waits_on))
        if activity is None:
            continue
        waited = times.only_waiting(int(number), int(waiter), int(waits_on), mine)
        cost = spins_alone(activity, waited)
        if worst is None or cost.length_ns > worst_cost.length_ns:
            worst, worst_cost = (subject, activity), cost
    if worst is None or worst_cost.length_ns < SMALLEST_COST_NS:
        return None
    subject, activity = worst
    weight = weigh([worst_cost], subject.scale(activity))
    of_group = rows.select("group", "number").n_unique()
    entered = times.waits.filter(
        (pl.col("trace") == trace)
        & (pl.col("process") == process)
        & (pl.col("device") == device)
        & pl.col("group").is_in(rows["group"].unique().implode())
    ).height
    severity = weight.severity
    if by_chance or (of_group == 1 and severity is Severity.WARNING):
        severity = Severity.INFO  # a single straggler, or another one each time
    rule = RULES["OA703"]
    rank = subjects[trace].rank_of.get(process)
    ranks = [
        subjects[int(n)].rank_of.get(int(p))
        for n, p in rows.select("trace", "process").unique().rows()
    ]
    return Finding(
        code=rule.code,
        slug=rule.slug,
        severity=severity,
        confidence=Confidence.PROVEN,
        where=Where(
            process=process,
            rank=rank,
            device=device,
            windows=weight.windows,
            start_ns=int((late["start_ns"] - late["late_ns"]).to_numpy().min()),
            end_ns=int(late["end_ns"].to_numpy().max()),
        ),
        evidence={
            "collectives_entered_last": of_group,
            "of_collectives": entered,
            "kinds": rows["kind"].unique().sort().to_list(),
            "longest_wait_ns": int(rows["wait_ns"].max()),  # type: ignore[arg-type]
            "waiting_ranks": sorted(one for one in ranks if one is not None),
            "clock_residual_ns": times.residual_ns,
        },
        cost_ns=weight.cost_ns,
        layer=rule.layer,
        tuning_step=rule.tuning_step,
        next_step="see what this rank does before it enters them: more work (tokens, experts), a "
        "slower device, or a wait of its host",
    )


def _activity(subject: Subject, process: int, device: int) -> DeviceActivity | None:
    return next(
        (one for one in subject.devices if (one.process, one.device) == (process, device)), None
    )
