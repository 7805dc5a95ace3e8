"""Read columns of a large table by decoding its pages, several threads at once."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl

from overlapaudit.reader.btree import (
    Bytes,
    PageLayout,
    UnusualFile,
    cell_counts,
    leaf_pages,
)

_SMALLEST_CELL = 4  # its pointer, and a row of no columns
_PAGES_AT_ONCE = 4096  # about 16 MB: often enough for progress, seldom enough to cost nothing


@dataclass(frozen=True, slots=True)
class TablePlan:
    """Where a table lies in the file and which of its columns are wanted."""

    root: int
    width: int  # columns in the table, up to the last wanted one
    slot_of: dict[int, int]  # position in the table -> position among the wanted columns
    real: tuple[bool, ...]
    rowid_slot: int  # the wanted column that is the INTEGER PRIMARY KEY, or -1


class PagedFile:
    """A database file as bytes; use only while a read lock on it is held."""

    def __init__(self, handle: BinaryIO) -> None:
        self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        self._data: Bytes = np.frombuffer(self._map, dtype=np.uint8)
        self._layout = PageLayout.of(self._data)
        self._leaves_of: dict[int, npt.NDArray[np.int64]] = {}

    def size_of(self, root: int) -> int:
        """Give the bytes of a table's leaf pages.

        Raises:
            UnusualFile: the table is not as plain as this decoder needs.
        """
        return len(self._leaves(root)) * self._layout.page_size

    def read(
        self, plan: TablePlan, names: Sequence[str], progress: Callable[[int, int], None]
    ) -> pl.DataFrame:
        """Decode the wanted columns (Int64 or Float64), rows in rowid order.

        Args:
            plan: the table.
            names: the names that the columns get.
            progress: told (rows done, rows in all) now and then.

        Raises:
            UnusualFile: the table is not as plain as this decoder needs.
        """
        leaves = self._leaves(plan.root)
        counts = cell_counts(self._data, self._layout, leaves)
        if counts.max(initial=0) > self._layout.usable_size // _SMALLEST_CELL:
            raise UnusualFile("more cells than a page can hold")
        first_row = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        rows = int(first_row[-1])
        values = np.empty((len(names), rows), dtype=np.int64)
        valid = np.empty((len(names), rows), dtype=np.uint8)
        self._decode(plan, leaves, first_row, values, valid, progress)
        if hasattr(mmap, "MADV_DONTNEED"):
            # The file's pages are the system's to keep, not this process'.
            self._map.madvise(mmap.MADV_DONTNEED)
        return pl.DataFrame(
            {
                name: _series(values[index], valid[index], real=plan.real[index])
                for index, name in enumerate(names)
            }
        )

    def _leaves(self, root: int) -> npt.NDArray[np.int64]:
        if root not in self._leaves_of:
            self._leaves_of[root] = leaf_pages(self._data, self._layout, root)
        return self._leaves_of[root]

    def _decode(
        self,
        plan: TablePlan,
        leaves: npt.NDArray[np.int64],
        first_row: npt.NDArray[np.int64],
        values: npt.NDArray[np.int64],
        valid: npt.NDArray[np.uint8],
        progress: Callable[[int, int], None],
    ) -> None:
        from overlapaudit.reader.cells import DECODED, decode_cells  # noqa: PLC0415 - numba is slow

        slots = np.full(plan.width, -1, dtype=np.int64)
        slots[list(plan.slot_of)] = list(plan.slot_of.values())
        real = np.array(plan.real, dtype=np.bool_)

        def decode(begin: int) -> int:
            part = slice(begin, begin + _PAGES_AT_ONCE)
            status: int = decode_cells(
                self._data, leaves[part], first_row[part], self._layout.page_size,
                self._layout.usable_size, slots, real, plan.rowid_slot, values, valid,
            )  # fmt: skip
            return status

        parts = range(0, len(leaves), _PAGES_AT_ONCE)
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
            for begin, status in zip(parts, threads.map(decode, parts), strict=True):
                if status != DECODED:
                    raise UnusualFile(f"decoder status {status}")
                done = min(begin + _PAGES_AT_ONCE, len(leaves))
                progress(int(first_row[done]), int(first_row[-1]))


def _series(
    values: npt.NDArray[np.int64], valid: npt.NDArray[np.uint8], *, real: bool
) -> pl.Series:
    column = pl.Series(values.view(np.float64) if real else values)
    if valid.all():
        return column
    return pl.select(pl.when(pl.Series(valid.view(np.bool_))).then(column)).to_series()
