"""Join rows to the API call that caused them, on (process, correlation).

Correlation ids restart in every process, so the id alone joins launches of one rank to the work
of another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

Rows = npt.NDArray[np.int64]

_NONE = -1
# A table indexed by correlation id, if it is at most this many times as long as the calls it holds.
_DENSE = 8


def api_rows(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Give for each of `rows` the row number in `calls` of its launch, null where there is none.

    Args:
        rows: with columns `process` and `correlation`.
        calls: with the same columns, in the order that row numbers refer to; of several calls
            with one id (a driver call inside a runtime call) the first counts.
    """
    result = np.full(rows.height, _NONE, dtype=np.int64)
    calls_of = _groups(calls)
    for process, group in _groups(rows).items():
        if process in calls_of:
            result[group["row"].to_numpy()] = _find(
                group["correlation"].to_numpy(),
                calls_of[process]["correlation"].to_numpy(),
                calls_of[process]["row"].to_numpy(),
            )
    found = pl.DataFrame({"api_row": result})
    return found.select(pl.when(pl.col("api_row") >= 0).then("api_row")).to_series()


def _groups(frame: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    joinable = (
        frame.select("process", "correlation")
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("row"))
        .drop_nulls(["process", "correlation"])
    )
    return joinable.partition_by("process", as_dict=True)


def _find(wanted: Rows, ids: Rows, at: Rows) -> Rows:
    low, high = int(ids.min()), int(ids.max())
    if high - low < _DENSE * len(ids) + 1024:
        table = np.full(high - low + 1, _NONE, dtype=np.int64)
        table[(ids - low)[::-1]] = at[::-1]  # backwards, so that the first of equal ids stays
        inside = (wanted >= low) & (wanted <= high)
        return np.where(inside, table[np.where(inside, wanted - low, 0)], _NONE)
    order = np.argsort(ids, kind="stable")
    place = np.searchsorted(ids[order], wanted)
    place = np.minimum(place, len(ids) - 1)
    hit = ids[order][place] == wanted
    return np.where(hit, at[order][place], _NONE)
