"""How many blocks of a kernel fit on an SM."""

from __future__ import annotations

from overlapaudit_engine.hardware.hardware import Hardware

WARP = 32
# Shared memory that the system keeps of each block (compute capability 8 and later).
_RESERVED_SHARED = 1024
# Registers are given out to a warp in pieces of 256.
_REGISTER_PIECE = 256


def warps(threads: int) -> int:
    """Give the warps of a block."""
    return -(-threads // WARP)


def registers_of_block(threads: int, registers: int) -> int:
    """Give the registers of a block, rounded up as they are given out."""
    of_warp = -(-registers * WARP // _REGISTER_PIECE) * _REGISTER_PIECE
    return of_warp * warps(threads)


def shared_of_block(shared_bytes: int) -> int:
    """Give the shared memory of a block with what the system keeps of it."""
    return shared_bytes + _RESERVED_SHARED


def blocks_per_sm(hardware: Hardware, threads: int, registers: int, shared_bytes: int) -> int:
    """Give how many such blocks fit on an SM.

    Raises:
        ValueError: not even one does.
    """
    fit = min(
        hardware.blocks_per_sm,
        hardware.warps_per_sm // warps(threads),
        hardware.registers_per_sm // registers_of_block(threads, registers),
        hardware.shared_per_sm // shared_of_block(shared_bytes),
    )
    if fit < 1:
        raise ValueError(
            f"a block of {threads} threads, {registers} registers each and {shared_bytes} bytes of "
            f"shared memory does not fit on an SM of {hardware.name}"
        )
    return fit
