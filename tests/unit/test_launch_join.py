"""The launch join against a plain dictionary."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlapaudit.reader import launch_join

Pairs = list[tuple[int | None, int | None]]
processes = st.one_of(st.none(), st.integers(0, 3))
ids = st.one_of(st.none(), st.integers(0, 5), st.sampled_from([-1, 1 << 40]))
pairs = st.lists(st.tuples(processes, ids), max_size=12)


def frame(rows: Pairs) -> pl.DataFrame:
    schema = {"process": pl.Int64, "correlation": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.mark.parametrize("few", [0, 16])
@given(pairs, pairs)
def test_first_call_of_the_process_with_the_id(few: int, rows: Pairs, calls: Pairs) -> None:
    first: dict[tuple[int | None, int | None], int] = {}
    for row, key in enumerate(calls):
        first.setdefault(key, row)
    # CUPTI numbers from 1: a 0 stands for none.
    expected = [None if None in key or not key[1] else first.get(key) for key in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_join, "_FEW", few)
        assert launch_join.api_rows(frame(rows), frame(calls)).to_list() == expected
