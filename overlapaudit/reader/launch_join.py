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
# So many processes are picked out one after the other faster than by sorting.
_FEW = 16


def api_rows(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Give for each of `rows` the row number in `calls` of its launch, null where there is none.

    Args:
        rows: with columns `process` and `correlation`.
        calls: with the same columns, in the order that row numbers refer to; of several calls
            with one id (a driver call inside a runtime call) the first counts.
    """
    result = np.full(rows.height, _NONE, dtype=np.int64)
    ids, ids_of_calls = _ids(rows), _ids(calls)
    calls_of = _rows_by_process(calls)
    for process, mine in _rows_by_process(rows).items():
        theirs = calls_of.get(process, mine[:0])
        if len(theirs):
            result[mine] = _find(ids[mine], ids_of_calls[theirs], theirs)
    found = pl.DataFrame({"api_row": result})
    return found.select(pl.when(pl.col("api_row") >= 0).then("api_row")).to_series()


def _ids(frame: pl.DataFrame) -> Rows:
    return frame["correlation"].fill_null(0).to_numpy()


def _rows_by_process(frame: pl.DataFrame) -> dict[int, Rows]:
    """Give the numbers of the rows of each process that can be joined."""
    process = frame["process"]
    # CUPTI numbers from 1; 0 is what older exporters write where there is none.
    joinable = (process.is_not_null() & (frame["correlation"] != 0).fill_null(False)).to_numpy()
    numbers = process.fill_null(0).to_numpy()
    processes = process.unique().drop_nulls().to_list()
    if len(processes) <= _FEW:
        return {one: np.flatnonzero(joinable & (numbers == one)) for one in processes}
    order = np.flatnonzero(joinable)
    if not len(order):
        return {}
    order = order[np.argsort(numbers[order], kind="stable")]
    ids, first = np.unique(numbers[order], return_index=True)
    return dict(zip(ids.tolist(), np.split(order, first[1:]), strict=True))


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
