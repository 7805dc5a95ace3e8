"""Compare the GPU work of the product's ranges with NVIDIA's own projection, range by range.

Run `python -m tests.oracle.nsys_projection --nsys PATH FILE...`. A difference is put down to
causes, the known faults of NVIDIA's report. Each is looked for in the (range, operation) pairs that
the product makes, and changes those alone; what comes out must be NVIDIA's figures to the ns, or
the range is unexplained. Exits with 1 if one is, or if nothing is equal.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import sys
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import polars as pl

import overlapaudit as oa
from overlapaudit.model.kinds import OpKind, RangeKind
from overlapaudit.model.window import WHOLE_TRACE
from overlapaudit.spans.inside import launched_inside
from overlapaudit.spans.launches import LaunchOrder, by_launch
from overlapaudit.spans.nesting import numbered
from overlapaudit.spans.span_table import spans_of
from tests.oracle.nsys_kern_sum import _run, version_of

OUTSIDE = -1  # in place of a range: work that was launched in none
LAYOUT = "{:<46} {:>6} {:>9} {:>6} {:>6} {:>11}  {}"

EQUAL = "equal"
ELSEWHERE = "ended on another thread"  # NVIDIA leaves such ranges out
OPAQUE = "opaque replay"  # NVIDIA looks at kernels, copies and memsets only
NEVER_CLOSED = "never closed"  # for NVIDIA the session's end, or the last range's, closes it
STRADDLES = "call ends after the range"  # NVIDIA wants the whole call in the range
UNTIMED = "work without times"  # NVIDIA counts it, and takes 0 for its times
ONE_LAUNCH = "one launch, several operations"  # NVIDIA counts launches: a replay of 266 nodes is 1
EQUAL_IDS = "equal ids of two processes"  # NVIDIA counts ids; outside of ranges processes mix

# What takes pairs away, one cause after the other. What has no range left is work outside ranges.
_TAKES = {
    ELSEWHERE: pl.col("elsewhere"),
    OPAQUE: pl.col("opaque"),
    NEVER_CLOSED: pl.col("open") & (pl.col("call_end_ns") > pl.col("closed_ns")),
    STRADDLES: (pl.col("call_start_ns") < pl.col("closed_ns"))
    & (pl.col("closed_ns") < pl.col("call_end_ns")),
}
_NEVER = (1 << 63) - 1
_ID = 1 << 24  # pid and tid have 24 bits each


class Work(NamedTuple):
    """The GPU work of a range: how much it is, and from when to when it ran (ns)."""

    operations: int
    start_ns: int
    end_ns: int


Span = tuple[int, int, str, str, int, int]  # pid, tid, style, name, start and end (ns)
Rows = list[tuple[Span | None, Work]]  # None: the work outside of all ranges


class Comparison(NamedTuple):
    """How the ranges of a trace compare.

    Attributes:
        ranges: the product's, marks left out.
        with_work: those of them that hold work, by the product.
        rows: of NVIDIA's report.
        equal: ranges of the same work.
        causes: how many others differ by which causes.
        outside: "equal" or the causes, for the work outside of all ranges; None where there is
            none, or no row for it (2022).
        unexplained: all that is left.
    """

    ranges: int
    with_work: int
    rows: int
    equal: int
    causes: Counter[str]
    outside: str | None
    unexplained: list[str]


def compare(nsys: Path, path: Path) -> Comparison | None:
    """Compare all ranges of a trace; None where nsys makes no report of it."""
    rows = projection_of_nsys(nsys, path)
    if rows is None:
        return None
    with oa.open_trace(path) as trace:
        launched = by_launch(trace.operations, trace.api_calls)
        ranges = _ranges(trace, rows)
        ours = _work_of_audit(trace, launched)
        expected, reasons = _with_causes(_pairs(trace, ranges, launched))
    with_work = len(ours.keys() - {OUTSIDE})
    if version_of(nsys) < (2023,):  # has no row for the work outside
        for work in (ours, expected):
            work.pop(OUTSIDE, None)

    theirs, unexplained = _by_range(ranges, rows)
    verdicts: dict[int, str] = {}
    for row in sorted(ours.keys() | expected.keys() | theirs.keys()):
        mine, adjusted, nvidia = ours.get(row), expected.get(row), theirs.get(row)
        why = EQUAL if mine == nvidia else " + ".join(reasons[row])
        if adjusted == nvidia and why:
            verdicts[row] = why
        else:
            unexplained.append(f"range {row}: {mine}, nsys {nvidia}, by causes {adjusted} {why}")
    outside = verdicts.pop(OUTSIDE, None)
    causes = Counter(verdicts.values())
    equal = causes.pop(EQUAL, 0)
    return Comparison(ranges.height, with_work, len(rows), equal, causes, outside, unexplained)


def projection_of_nsys(nsys: Path, path: Path) -> Rows | None:
    """Let nsys project the ranges; None where it makes no report of this trace."""
    report = "nvtxgpuproj" if version_of(nsys) < (2023,) else "nvtx_gpu_proj_trace"
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copy(path, folder))  # nsys may write beside its input
        copy.chmod(0o600)
        options = ["--force-export=false", "--report", report, "--format", "csv"]
        _run(nsys, ["stats", *options, "-o", f"{folder}/out", str(copy)], folder)
        table = Path(folder, f"out_{report}.csv")
        if not table.exists() or table.stat().st_size == 0:
            return None
        with table.open(encoding="utf-8", errors="replace", newline="") as file:
            return [_row(row) for row in csv.DictReader(file)]


def _row(row: dict[str, str]) -> tuple[Span | None, Work]:
    start, duration = int(row["Projected Start (ns)"]), int(row["Projected Duration (ns)"])
    work = Work(int(row["NumGPUOps"]), start, start + duration)
    if not row["RangeId"]:
        return None, work
    opened = int(row["Orig Start (ns)"])
    closed = opened + int(row["Orig Duration (ns)"])
    return (int(row["PID"]), int(row["TID"]), row["Style"], row["Name"], opened, closed), work


def _work_of_audit(trace: oa.Trace, launched: LaunchOrder) -> dict[int, Work]:
    """Give what the product says of each range that holds work, and of the work outside."""
    spans = spans_of(numbered(trace.ranges), launched, trace.operations, WHOLE_TRACE)
    found = spans.select("range_row", "operations", "gpu_start_ns", "gpu_end_ns")
    work = {row: Work(*figures) for row, *figures in found.rows()}
    outside = trace.operations.filter(~pl.Series(launched_inside(trace))).drop_nulls(
        ["api_row", "start_ns"]
    )
    if outside.height:
        first, last = outside.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
        work[OUTSIDE] = Work(outside.height, first, last)
    return work


def _ranges(trace: oa.Trace, rows: Rows) -> pl.DataFrame:
    """Give the product's ranges, in order of `range_row`, with what NVIDIA calls them."""
    every = trace.ranges.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("range_row"))
    known = every.filter(pl.col("kind") != RangeKind.MARK.value)
    # The model does not say whether nsys left an end empty or wrote the session's.
    session = trace.identity.duration_ns
    if not any(span is not None and span[-1] == session for span, _ in rows):
        session = max([*known["start_ns"], *known["end_ns"].drop_nulls()], default=0)
    name = pl.concat_str(pl.col("domain") + ":", "text", ignore_nulls=True)
    pushed = pl.col("kind") == RangeKind.PUSH_POP.value
    return numbered(trace.ranges).join(
        known.select(
            "range_row",
            pid=pl.col("thread") // _ID % _ID,
            tid=pl.col("thread") % _ID,
            style=pl.when(pushed).then(pl.lit("PushPop")).otherwise(pl.lit("StartEnd")),
            name=pl.when(pl.col("text") != "").then(name).otherwise(pl.lit("")),
            closed_ns=pl.col("end_ns").fill_null(session),
            open=pl.col("end_ns").is_null(),
            elsewhere=pl.col("end_thread") != pl.col("thread"),
        ),
        on="range_row",
        maintain_order="left",
    )


def _by_range(ranges: pl.DataFrame, rows: Rows) -> tuple[dict[int, Work], list[str]]:
    """Pair NVIDIA's rows with the ranges; of equal ranges the first is as good as the second."""
    waiting: dict[Span | None, list[int]] = defaultdict(list, {None: [OUTSIDE]})
    # NVIDIA has no rows of ranges that ended elsewhere: such a one gets none of its equals'.
    spans = ranges.sort("elsewhere", "range_row", descending=[True, True]).select(
        "pid", "tid", "style", "name", "start_ns", "closed_ns", "range_row"
    )
    for row in spans.rows():
        waiting[row[:-1]].append(row[-1])
    found, unpaired = {}, []
    for one, work in rows:
        if waiting[one]:
            found[waiting[one].pop()] = work
        else:
            unpaired.append(f"a row of nsys for no range: {one and one[4:]}, {work}")
    return found, unpaired


def _pairs(trace: oa.Trace, ranges: pl.DataFrame, launched: LaunchOrder) -> pl.DataFrame:
    """Give each range with each operation that the product puts into it, or OUTSIDE with it."""
    thread, start, end = (ranges[key].to_numpy() for key in ("thread", "start_ns", "end_ns"))
    first, last = map(pl.Series, launched.slices(thread, start, end))
    operations = trace.operations.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("operation"),
        pl.col("kind").is_in([OpKind.GRAPH.value, OpKind.DECOMPRESS.value]).alias("opaque"),
        "start_ns",
        "end_ns",
        "correlation",
        launch="api_row",
    )
    calls = trace.api_calls.select(call_start_ns="start_ns", call_end_ns="end_ns")
    work = pl.concat([operations[launched.operation], calls[launched.launch]], how="horizontal")
    inside = (
        ranges.select(
            "range_row", "closed_ns", "open", "elsewhere", place=pl.int_ranges(first, last)
        )
        .explode("place")
        .drop_nulls("place")
    )
    pairs = pl.concat([inside.drop("place"), work[inside["place"]]], how="horizontal")
    return pl.concat([pairs, _outside(work.join(pairs, on="operation", how="anti"), pairs)])


def _outside(work: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Pair each operation of this work once with no range, in the columns of `pairs`."""
    return (
        work.unique("operation")
        .with_columns(
            range_row=pl.lit(OUTSIDE, pl.Int64),
            closed_ns=pl.lit(_NEVER, pl.Int64),
            open=pl.lit(False),
            elsewhere=pl.lit(False),
        )
        .select(pairs.columns)
    )


def _with_causes(pairs: pl.DataFrame) -> tuple[dict[int, Work], dict[int, list[str]]]:
    """Let every cause do to the pairs what it does; give the work, and what each range met with."""
    reasons: dict[int, list[str]] = defaultdict(list)
    for cause, takes in _TAKES.items():
        lost, pairs = pairs.filter(takes), pairs.filter(~takes)
        if cause != OPAQUE:
            freed = _outside(lost.join(pairs, on="operation", how="anti"), pairs)
            lost, pairs = pl.concat([lost, freed]), pl.concat([pairs, freed])
        for row in lost["range_row"].unique():
            reasons[row].append(cause)

    measured = pairs.group_by("range_row").agg(
        pl.len(),
        pl.col("launch").n_unique().alias("launches"),
        pl.col("correlation").n_unique().alias("ids"),
        pl.col("start_ns").null_count().alias("untimed"),
        pl.col("start_ns").fill_null(0).min(),
        pl.col("end_ns").fill_null(0).max(),
    )
    work = {}
    for row, operations, launches, ids, untimed, start, end in measured.rows():
        work[row] = Work(ids, start, end)
        met = {UNTIMED: untimed, ONE_LAUNCH: operations > launches, EQUAL_IDS: launches > ids}
        reasons[row] += [cause for cause, holds in met.items() if holds]
    return work, reasons


def main(arguments: list[str]) -> int:
    """Print a table of the traces, and what is unexplained in them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsys", type=Path, required=True, metavar="PATH")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    options = parser.parse_args(arguments)

    print("nsys " + ".".join(map(str, version_of(options.nsys))))
    print(LAYOUT.format("file", "ranges", "with work", "rows", "equal", "unexplained", "by cause"))
    found = [_line(options.nsys, path) for path in options.files]
    compared = [one for one in found if one is not None]
    equal, unexplained = sum(c.equal for c in compared), sum(len(c.unexplained) for c in compared)
    return 0 if equal and not unexplained else 1


def _line(nsys: Path, path: Path) -> Comparison | None:
    found = compare(nsys, path)
    if found is None:
        print(LAYOUT.format(path.name, "", "", "", "", "", "refused"), flush=True)
        return None
    causes = [f"{count} {cause}" for cause, count in sorted(found.causes.items())]
    if found.outside is not None:
        causes.append(f"outside: {found.outside}")
    figures = found.ranges, found.with_work, found.rows, found.equal, len(found.unexplained)
    print(LAYOUT.format(path.name, *figures, ", ".join(causes)), flush=True)
    for line in found.unexplained[:20]:
        print(f"    {line}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
