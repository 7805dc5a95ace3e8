"""Processes, threads and the other numbers by which an export names things."""

from __future__ import annotations

from typing import Final

Text = str | bytes
Value = int | float | str | bytes | None
Row = dict[str, Value]

NOT_APPLICABLE: Final = 0xFFFFFFFF
"""What stands in stream and event ids where there is none."""

_THREAD_MASK: Final = 0xFFFFFF


def global_pid(pid: int, hw: int = 0, vm: int = 1) -> int:
    """Give the globalPid of a process; every file seen has hardware 0 and virtual machine 1."""
    for name, value, bits in (("hw", hw, 8), ("vm", vm, 8), ("pid", pid, 24)):
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{name}={value} does not fit into {bits} bits")
    return hw << 56 | vm << 48 | pid << 24


def global_tid(pid: int, tid: int, hw: int = 0, vm: int = 1) -> int:
    """Give the globalTid of a thread."""
    if not 0 <= tid <= _THREAD_MASK:
        raise ValueError(f"tid={tid} does not fit into 24 bits")
    return global_pid(pid, hw, vm) | tid


def process_of(thread: int) -> int:
    """Give the globalPid of a globalTid, or of a globalPid."""
    return thread & ~_THREAD_MASK


def pid_of(process: int) -> int:
    """Give the operating system's process id in a globalPid."""
    return process >> 24 & _THREAD_MASK


def hw_of(process: int) -> int:
    """Give the hardware id in a globalPid."""
    return process >> 56 & 0xFF


def vm_of(process: int) -> int:
    """Give the virtual machine id in a globalPid."""
    return process >> 48 & 0xFF


def main_thread(process: int) -> int:
    """Give the globalTid of the thread whose id is the process's own."""
    return process | pid_of(process)


def graph_node_id(graph: int, index: int) -> int:
    """Give the id of a node of a CUDA graph: the graph in the upper half, the node in the lower."""
    return graph << 32 | index


DEFAULT_PROCESS: Final = global_pid(1000)
DEFAULT_THREAD: Final = main_thread(DEFAULT_PROCESS)
GLOBAL_VID: Final = 1 << 48


def check_span(start_ns: int, end_ns: int) -> None:
    """Refuse times that are no integers, or in the wrong order."""
    check_integer(start_ns)
    check_integer(end_ns)
    if end_ns < start_ns:
        raise ValueError(f"ends at {end_ns} ns, before its start at {start_ns} ns")


def check_integer(value: int) -> None:
    """Refuse what SQLite would store as something else than an integer of 64 bits."""
    if type(value) is not int:
        raise ValueError(f"{value!r} is no integer")
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{value} does not fit into 64 bits")
