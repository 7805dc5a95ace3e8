"""A generated serving run: its identifiers, strings and times, shared by all tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from kernel_names import kernel_names
from simulate import RANKS, Ints, Timings, simulate
from step_program import Call, Kind, StepProgram, build_step

GLOBAL_VID = 1 << 48
FIRST_PID = 41_210
CONTEXT = 1
STREAM_IDS = (7, 23, 27, 31)
"""CUDA's numbers of the compute, communication, host-to-device and device-to-host streams."""
STREAM_PRIORITIES = (0, 4_294_967_291, 4_294_967_295, 0)
_THREAD_OFFSETS = (0, 37)
_FIRST_STRINGS = ("[Unknown]", "[kernel.kallsyms]", "[Max depth]")


class Strings:
    """The StringIds table while it grows: equal text has one id."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        for text in _FIRST_STRINGS:
            self.id(text)

    def id(self, text: str) -> int:
        """Give the id of a text."""
        return self._ids.setdefault(text, len(self._ids))

    def rows(self) -> list[tuple[int, str]]:
        """Give all (id, text)."""
        return [(number, text) for text, number in self._ids.items()]


@dataclass(frozen=True)
class ServingRun:
    """One run: a program of calls, played `steps` times on two ranks."""

    program: StepProgram
    steps: int
    times: Timings
    strings: Strings
    rng: np.random.Generator

    @cached_property
    def duration_ns(self) -> int:
        """Give the length of the session."""
        return int(max(self.times.api_end.max(), self.times.op_end.max())) + 80_000_000

    @cached_property
    def correlation_ids(self) -> Ints:
        """Give the id of every call, shape (step, call), the same in both processes."""
        steps = self.rng.integers(1, 3, (self.steps, len(self.program.calls)))
        return 120 + np.cumsum(steps, dtype=np.int64).reshape(steps.shape)

    def of_calls(self, kinds: tuple[Kind, ...]) -> Ints:
        """Give the places of the calls of some kinds in the program."""
        calls = self.program.calls
        return np.array([place for place, call in enumerate(calls) if call.kind in kinds])

    def per_call(self, values: list[int], places: Ints) -> Ints:
        """Repeat a value per call over ranks and steps, for the calls at `places`."""
        chosen = np.array(values, dtype=np.int64)[places]
        return np.broadcast_to(chosen, (RANKS, self.steps, len(places))).ravel()

    def per_rank(self, values: list[int], count: int) -> Ints:
        """Repeat a value per rank for `count` rows of each step."""
        return np.repeat(np.array(values, dtype=np.int64), self.steps * count)


def build_run(kernels: int, seed: int) -> ServingRun:
    """Simulate a run of at least `kernels` kernels, in whole steps."""
    program = build_step()
    launches = sum(call.kind in (Kind.KERNEL, Kind.COLLECTIVE) for call in program.calls)
    steps = -(-kernels // (launches * RANKS))
    rng = np.random.default_rng(seed)
    return ServingRun(program, steps, simulate(program.calls, steps, rng), Strings(), rng)


def global_pid(rank: int) -> int:
    """Give the process identity of a rank."""
    return GLOBAL_VID | (FIRST_PID + rank) << 24


def global_tid(rank: int, thread: int) -> int:
    """Give the identity of a thread of a rank."""
    return global_pid(rank) | (FIRST_PID + rank + _THREAD_OFFSETS[thread])


@dataclass(frozen=True, slots=True)
class KernelShape:
    """Name ids and launch figures of one variant of a kernel."""

    demangled: int
    short: int
    mangled: int
    registers: int
    block: int
    grid: int
    static_shared: int
    dynamic_shared: int


def kernel_shapes(strings: Strings, rng: np.random.Generator) -> dict[str, list[KernelShape]]:
    """Give every kind of kernel its variants, with plausible launch figures."""
    return {
        work: [KernelShape(*map(strings.id, names), *_figures(work, rng)) for names in variants]
        for work, variants in kernel_names().items()
    }


def _figures(work: str, rng: np.random.Generator) -> tuple[int, ...]:
    """Draw registers, block, grid, static and dynamic shared memory."""
    if work in ("gemm", "attention"):
        return 168, 384, int(rng.integers(33, 265)), 0, int(rng.integers(98, 228)) * 1024
    if work == "comm":
        return 96, 640, int(rng.choice([8, 16, 24])), 21_568, 82_240
    block = int(rng.choice([128, 256, 512]))
    return int(rng.integers(16, 64)), block, int(rng.integers(1, 4096)), 16 * (block // 256), 0


def choose_variants(
    calls: list[Call], variants: dict[str, list[KernelShape]], steps: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Choose a variant for every launch of every step, shape (step, launch).

    Batch sizes recur, so a step picks one of a few sets of variants.
    """
    count = np.array([len(variants[call.work]) for call in calls])
    salt = rng.integers(0, 4, len(calls))
    batch = rng.integers(0, 24, (steps, 1))
    chosen: npt.NDArray[np.int64] = (batch + salt) % count
    return chosen
