"""Decode the cells of SQLite leaf pages into columns of integers (compiled with numba).

Loaded only when a large table is read: numba costs half a second of start-up. The compiled code
is cached on disk, so a machine compiles it once. Record format: SQLite's file format document,
section 2.1. Every offset is checked against its page before it is used.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

# What `decode_cells` returns.
DECODED = 0
CONTINUES = 1  # a row continues on an overflow page
DAMAGED = 2  # a length or offset points outside its page
OTHER_TYPE = 3  # text or blob where a number belongs, or a fraction where an integer does


@nb.njit(nogil=True, cache=True)
def _varint(data: npt.NDArray[np.uint8], at: int, stop: int) -> tuple[int, int]:
    """Read a variable-length integer: (value, offset behind it), or offset -1 beyond `stop`."""
    value = np.int64(0)
    for index in range(9):
        if at >= stop:
            return np.int64(0), np.int64(-1)
        byte = np.int64(data[at])
        at += 1
        if index == 8:
            return (value << 8) | byte, at
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value, at


@nb.njit(nogil=True, cache=True)
def _big_endian(data: npt.NDArray[np.uint8], at: int, length: int) -> Any:
    """Read a two's-complement integer of `length` bytes (1 to 8)."""
    value = np.int64(np.int8(data[at]))
    for index in range(1, length):
        value = (value << 8) | np.int64(data[at + index])
    return value


@nb.njit(nogil=True, cache=True)
def _length(serial: int) -> int:
    """Give the bytes that a value of this serial type takes; negative: no such type."""
    if serial <= 4:
        return serial
    if serial == 5:
        return 6
    if serial <= 7:
        return 8
    if serial < 10:
        return 0
    return (serial - 12) >> 1


@nb.njit(nogil=True, cache=True)
def decode_cells(
    data: Any,
    leaves: Any,
    first_row: Any,
    page_size: int,
    usable_size: int,
    slot_of: Any,
    real: Any,
    rowid_slot: int,
    values: Any,
    valid: Any,
) -> int:
    """Fill `values` and `valid` from the rows on `leaves`.

    Args:
        data: the whole file, uint8.
        leaves: leaf page numbers, int64 [pages].
        first_row: the row number of each page's first row, int64 [pages].
        page_size: bytes.
        usable_size: bytes of a page that hold content.
        slot_of: for each table column up to the last wanted one, its row in `values` or -1.
        real: for each row of `values`, whether it holds float64 bits rather than integers.
        rowid_slot: the row of `values` that takes the rowid, or -1.
        values: int64 [columns, rows], written in place.
        valid: uint8 [columns, rows], 0 for null, written in place.

    Returns:
        DECODED, or why the rows cannot be decoded here (what was written is then void).
    """
    width = slot_of.shape[0]
    for page in range(leaves.shape[0]):
        base = (leaves[page] - 1) * page_size
        page_end = base + usable_size
        count = (np.int64(data[base + 3]) << 8) | np.int64(data[base + 4])
        if base + 8 + 2 * count > page_end or first_row[page] + count > values.shape[1]:
            return DAMAGED
        for cell in range(count):
            row = first_row[page] + cell
            pointer = base + 8 + 2 * cell
            at = base + ((np.int64(data[pointer]) << 8) | np.int64(data[pointer + 1]))
            size, at = _varint(data, at, page_end)
            if at < 0:
                return DAMAGED
            rowid, at = _varint(data, at, page_end)
            if at < 0 or size < 0:
                return DAMAGED
            if size > usable_size - 35:
                return CONTINUES
            stop = at + size
            if stop > page_end:
                return DAMAGED
            header_size, header = _varint(data, at, stop)
            body = at + header_size
            header_end = body
            if header < 0 or header_size < 1 or body > stop:
                return DAMAGED
            for column in range(width):
                serial = np.int64(0)  # a row shorter than the table ends in nulls
                if header < header_end:
                    serial = np.int64(data[header])
                    header += 1
                    if serial >= 0x80:
                        serial, header = _varint(data, header - 1, header_end)
                        if header < 0 or serial < 0:
                            return DAMAGED
                length = _length(serial)
                if length < 0 or body + length > stop:
                    return DAMAGED
                slot = slot_of[column]
                if slot >= 0:
                    valid[slot, row] = serial != 0
                    if serial == 0:
                        values[slot, row] = 0
                    elif serial == 7 and real[slot]:
                        values[slot, row] = _big_endian(data, body, 8)
                    elif serial <= 6 or serial == 8 or serial == 9:
                        number = serial - 8 if serial >= 8 else _big_endian(data, body, length)
                        if real[slot]:
                            number = np.float64(number).view(np.int64)
                        values[slot, row] = number
                    else:
                        return OTHER_TYPE
                body += length
            if rowid_slot >= 0:
                values[rowid_slot, row] = rowid
                valid[rowid_slot, row] = 1
    return DECODED
