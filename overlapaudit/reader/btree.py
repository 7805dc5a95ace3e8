"""Find the leaf pages of an SQLite table, in row order, straight from the file's bytes.

The format is SQLite's documented one (https://www.sqlite.org/fileformat2.html, sections 1.3
and 1.6). Anything that is not plainly an ordinary rowid table raises `UnusualFile`, and the
caller reads that table through the sqlite3 driver instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
PageNumbers: TypeAlias = npt.NDArray[np.int64]

_INTERIOR, _LEAF = 0x05, 0x0D
_MAX_DEPTH = 20  # SQLite's own limit (BTCURSOR_MAX_DEPTH)
_HEADER_SIZE = 100


class UnusualFile(Exception):
    """The bytes are not those of an ordinary table; the driver must read it."""


@dataclass(frozen=True, slots=True)
class PageLayout:
    """How a database file is cut into pages (sizes in bytes)."""

    page_size: int
    usable_size: int
    page_count: int

    @classmethod
    def of(cls, data: Bytes) -> PageLayout:
        """Read the layout off the 100-byte file header."""
        if len(data) < _HEADER_SIZE or bytes(data[:16]) != b"SQLite format 3\x00":
            raise UnusualFile("no SQLite header")
        page_size = int(data[16]) << 8 | int(data[17])
        page_size = 65536 if page_size == 1 else page_size
        if page_size < 512 or page_size & (page_size - 1):
            raise UnusualFile("page size")
        return cls(page_size, page_size - int(data[20]), len(data) // page_size)


def leaf_pages(data: Bytes, layout: PageLayout, root: int) -> PageNumbers:
    """Give the leaf page numbers (from 1) of the table rooted at `root`, in rowid order."""
    level: PageNumbers = np.array([root], dtype=np.int64)
    for _ in range(_MAX_DEPTH):
        if level.min() < 2 or level.max() > layout.page_count:
            raise UnusualFile("page number outside the file")
        kinds = data[(level - 1) * layout.page_size]
        if (kinds == _LEAF).all():
            return level
        if not (kinds == _INTERIOR).all():
            raise UnusualFile("not a balanced rowid table")
        level = np.concatenate([_children(data, layout, int(page)) for page in level])
        if len(level) > layout.page_count:  # a cycle: more pages than the file holds
            raise UnusualFile("pages repeat")
    raise UnusualFile("too deep")


def cell_counts(data: Bytes, layout: PageLayout, leaves: PageNumbers) -> npt.NDArray[np.int64]:
    """Give the number of rows on each leaf page."""
    at = (leaves - 1) * layout.page_size
    return (data[at + 3].astype(np.int64) << 8) | data[at + 4]


def _children(data: Bytes, layout: PageLayout, page: int) -> PageNumbers:
    """Give the child page numbers of an interior page, left to right."""
    at = (page - 1) * layout.page_size
    body = data[at : at + layout.usable_size]
    count = int(body[3]) << 8 | int(body[4])
    if 12 + 2 * count > layout.usable_size:
        raise UnusualFile("cell pointers outside the page")
    offsets = _big_endian(body[12 : 12 + 2 * count].reshape(count, 2))
    if count and int(offsets.max()) + 4 > layout.usable_size:
        raise UnusualFile("cell outside the page")
    left = _big_endian(body[offsets[:, None] + np.arange(4)])
    right = _big_endian(body[8:12].reshape(1, 4))
    return np.concatenate([left, right])


def _big_endian(rows: Bytes) -> npt.NDArray[np.int64]:
    """Read each row of bytes as one unsigned big-endian number."""
    value = np.zeros(len(rows), dtype=np.int64)
    for column in range(rows.shape[1]):
        value = value << 8 | rows[:, column]
    return value
