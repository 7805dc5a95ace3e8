"""Play the step program on two ranks and give the times of every call and GPU operation.

A stream runs its operations in order, waits honour events, host waits end with what they wait for,
a collective ends on both ranks at once. The loop is plain Python: a few seconds for a million
kernels, and no compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from step_program import COMM, GPU_KINDS, Call, Kind

Ints = npt.NDArray[np.int64]

RANKS = 2
SESSION_BEGIN_NS = 1_500_000_000
_STEPS_AT_ONCE = 64
_COPY_BYTES_PER_NS = 50
_LAUNCH_LATENCY_NS = 1800
_STREAM_GAP_NS = 600
_LAST_GPU_KIND = max(GPU_KINDS)
_RECORD, _STREAM_WAIT = Kind.RECORD, Kind.STREAM_WAIT  # looking members up costs as much as a call
_EVENT_SYNC, _STREAM_SYNC = Kind.EVENT_SYNC, Kind.STREAM_SYNC


@dataclass(frozen=True, slots=True)
class Timings:
    """Times in ns, each of shape (rank, step, call); operations are 0 for calls without one."""

    api_start: Ints
    api_end: Ints
    op_start: Ints
    op_end: Ints
    bytes: Ints


@dataclass(slots=True)
class Rank:
    """Clocks of one process and its device."""

    threads: list[int]
    streams: list[int] = field(default_factory=lambda: [0] * 4)
    event_done: list[int] = field(default_factory=lambda: [0] * 64)
    event_recorded: list[int] = field(default_factory=lambda: [0] * 64)

    def play(self, call: Call, host_gap: int, api_ns: int, gpu_ns: int) -> list[int]:
        """Advance by one call; give its start and end and those of its operation."""
        kind, stream = call.kind, call.stream
        begin = (max(self.threads) if call.woken else self.threads[call.thread]) + host_gap
        end = begin + api_ns
        start = done = 0
        if kind <= _LAST_GPU_KIND:
            ready = begin + min(api_ns, _LAUNCH_LATENCY_NS)
            start = max(ready, self.streams[stream] + _STREAM_GAP_NS)
            self.streams[stream] = done = start + gpu_ns
        elif kind == _RECORD:
            self.event_done[call.event] = self.streams[stream]
            self.event_recorded[call.event] = end
        elif kind == _STREAM_WAIT:  # never before the record, which another thread may make
            begin = max(begin, self.event_recorded[call.event] + 500)
            end = begin + api_ns
            self.streams[stream] = max(self.streams[stream], self.event_done[call.event])
        elif kind == _EVENT_SYNC:
            end = max(end, self.event_done[call.event] + 4000)
        elif kind == _STREAM_SYNC:
            end = max(end, self.streams[stream] + 4000)
        self.threads[call.thread] = end
        return [begin, end, start, done]


def simulate(calls: Sequence[Call], steps: int, rng: np.random.Generator) -> Timings:
    """Play `steps` steps on every rank."""
    shape = (RANKS, steps, len(calls))
    sizes = _sizes(calls, shape, rng)
    times: Ints = np.empty((*shape, 4), dtype=np.int64)
    ranks = [Rank([SESSION_BEGIN_NS + 40_000 * rank] * 2) for rank in range(RANKS)]
    for first in range(0, steps, _STEPS_AT_ONCE):
        block = slice(first, min(first + _STEPS_AT_ONCE, steps))
        times[:, block] = _play_block(calls, ranks, sizes[:, block], rng)
    starts, ends, op_starts, op_ends = (np.ascontiguousarray(times[..., k]) for k in range(4))
    return Timings(starts, ends, op_starts, op_ends, sizes)


def _play_block(
    calls: Sequence[Call], ranks: list[Rank], sizes: Ints, rng: np.random.Generator
) -> Ints:
    """Play some steps; the result has one more axis: call start and end, operation likewise."""
    steps = sizes.shape[1]
    host_gaps = _host_gaps(sizes.shape, rng)
    api_ns = (1700 + rng.exponential(1000, sizes.shape)).astype(np.int64)
    gpu_ns = _gpu_ns(calls, sizes, rng)
    played: list[list[list[int]]] = [[] for _ in ranks]
    for step in range(steps):
        drawn = [
            zip(
                *(draws[index, step].tolist() for draws in (host_gaps, api_ns, gpu_ns)), strict=True
            )
            for index in range(len(ranks))
        ]
        for call, *draws in zip(calls, *drawn, strict=True):
            for rank, out, draw in zip(ranks, played, draws, strict=True):
                out.append(rank.play(call, *draw))
            if call.work == "comm":
                _end_together(ranks, [out[-1] for out in played])
    return np.array(played, dtype=np.int64).reshape(*sizes.shape, 4)


def _end_together(ranks: list[Rank], rows: list[list[int]]) -> None:
    """Let a collective run on every rank until the last one to join is done."""
    done = max(row[3] for row in rows)
    for rank, row in zip(ranks, rows, strict=True):
        row[3] = rank.streams[COMM] = done


def _host_gaps(shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
    """Draw the host's time before each call: the scheduler's before a step, short ones later."""
    gaps = 900 + rng.exponential(500, shape)
    gaps[..., 0] += 120_000 + rng.exponential(60_000, shape[:-1])
    return gaps.astype(np.int64)


def _gpu_ns(calls: Sequence[Call], sizes: Ints, rng: np.random.Generator) -> Ints:
    """Draw the time of each operation: kernels spread about their typical time, copies by size."""
    typical = np.array([call.gpu_ns for call in calls], dtype=float)
    spread = rng.lognormal(0.0, 0.2, sizes.shape)
    prefill = 1.0 + 3.0 * (rng.random((1, sizes.shape[1], 1)) < 0.12)
    is_copy = np.array([call.kind == Kind.COPY for call in calls])
    kernels = typical * spread * np.where(is_copy, 1.0, prefill)
    return (kernels + np.where(is_copy, sizes / _COPY_BYTES_PER_NS, 0.0)).astype(np.int64)


def _sizes(calls: Sequence[Call], shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
    """Draw the bytes each copy moves, in units of 256."""
    typical = np.array([call.size for call in calls], dtype=float)
    sizes = typical * rng.uniform(0.5, 1.5, shape)
    return np.ceil(sizes / 256).astype(np.int64) * 256
