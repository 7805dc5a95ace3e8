"""Rows of NVTX_EVENTS of a generated run: nested ranges, request ranges, marks and domains.

Foreign ranges carry their text in the row, our own and NCCL's a registered string by id, as real
files mix them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from activity_rows import Columns
from serving_run import ServingRun, global_tid
from simulate import RANKS, Ints
from step_program import DEFAULT_DOMAIN, MAIN, NCCL_DOMAIN, OUR_DOMAIN, Nested

_PUSH_POP, _START_END, _MARK, _DOMAIN, _CATEGORY = 59, 60, 34, 75, 33
_LEVELS = ("request", "iteration", "layer", "cache", "mech")
_EDGE_NS = 60  # between the edges of ranges that begin or end at the same call
_REQUESTS_PER_STEP = 3
_MARKS_PER_STEP = 3
_COLUMNS = (
    "start", "end", "eventType", "rangeId", "category", "color", "text", "globalTid",
    "textId", "domainId", "uint64Value", "int64Value",
)  # fmt: skip


def nvtx_columns(run: ServingRun) -> Columns:
    """Give the NVTX_EVENTS table."""
    pieces = [_domains(run)]
    pieces += [_nested(run, rank, nested) for rank in range(RANKS) for nested in run.program.ranges]
    pieces += [part for rank in range(RANKS) for part in (_requests(run, rank), _marks(run, rank))]
    return {name: np.concatenate([_full(piece, name) for piece in pieces]) for name in _COLUMNS}


def _full(piece: Columns, name: str) -> npt.NDArray[np.object_]:
    """Spread a column of a piece over its rows."""
    starts = piece["start"]
    assert isinstance(starts, np.ndarray)
    column = np.empty(len(starts), dtype=object)
    column[:] = piece.get(name)
    return column


def _nested(run: ServingRun, rank: int, nested: Nested) -> Columns:
    """Give one push/pop range of every step."""
    begins = run.times.api_start[rank, :, nested.first] - _EDGE_NS * (7 - nested.depth)
    ends = run.times.api_end[rank, :, nested.last] + _EDGE_NS * (7 - nested.depth)
    ours = nested.domain == OUR_DOMAIN
    columns: dict[str, object] = {
        "start": begins,
        "end": ends,
        "eventType": _PUSH_POP,
        "globalTid": global_tid(rank, nested.thread),
        "domainId": nested.domain,
        "category": _category(nested.label) if ours else None,
    }
    if nested.label == "step":
        columns["text"] = _step_texts(run)
    elif nested.domain == DEFAULT_DOMAIN:
        columns["text"] = nested.label
    else:
        columns["textId"] = run.strings.id(nested.label)
    if nested.payload >= 0:
        columns["uint64Value" if nested.domain == NCCL_DOMAIN else "int64Value"] = nested.payload
    return columns  # type: ignore[return-value] # texts are an object array


def _step_texts(run: ServingRun) -> npt.NDArray[np.object_]:
    """Name every step as vLLM does, by its contexts and generated tokens."""
    counts = np.random.default_rng(run.steps).integers(0, 4, run.steps).tolist()
    texts = [f"execute_context_{n}({512 * n})_generation_{31 - n}({31 - n})" for n in counts]
    return np.array(texts, dtype=object)


def _requests(run: ServingRun, rank: int) -> Columns:
    """Give start/end ranges of requests; those open at the end stop with the session."""
    count = run.steps * _REQUESTS_PER_STEP
    begins = np.repeat(run.times.api_start[rank, :, 0], _REQUESTS_PER_STEP)
    begins = begins + np.arange(count) % _REQUESTS_PER_STEP * 5000 - 40_000
    last_step = np.arange(count) // _REQUESTS_PER_STEP + run.rng.integers(1, 40, count)
    done = run.times.api_end[rank, :, -1][np.minimum(last_step, run.steps - 1)]
    numbers = np.arange(1, count + 1)
    return {
        "start": begins,
        "end": np.where(last_step < run.steps, done + 2000, run.duration_ns),
        "eventType": _START_END,
        "rangeId": numbers,
        "category": _category("request.decode"),
        "globalTid": global_tid(rank, MAIN),
        "textId": run.strings.id("request.decode"),
        "domainId": OUR_DOMAIN,
        "int64Value": numbers,
    }


def _marks(run: ServingRun, rank: int) -> Columns:
    """Give marks: instants without an end."""
    ends = run.times.api_end[rank, :, -1]
    return {
        "start": (ends[:, None] + np.arange(1, _MARKS_PER_STEP + 1) * 900).ravel(),
        "eventType": _MARK,
        "globalTid": global_tid(rank, MAIN),
        "text": "scheduler: request finished",
        "domainId": DEFAULT_DOMAIN,
    }


def _domains(run: ServingRun) -> Columns:
    """Give the rows that name domains and categories, per process."""
    named: list[tuple[int, int, int | None, str]] = [
        (_DOMAIN, OUR_DOMAIN, None, "overlapaudit"),
        (_DOMAIN, NCCL_DOMAIN, None, "NCCL"),
        *((_CATEGORY, OUR_DOMAIN, number, level) for number, level in enumerate(_LEVELS, start=1)),
    ]
    rows = [(rank, *row) for rank in range(RANKS) for row in named]
    starts: Ints = 1_400_000_000 + np.arange(len(rows)) * 1000
    return {
        "start": starts,
        "eventType": np.array([row[1] for row in rows]),
        "globalTid": np.array([global_tid(row[0], MAIN) for row in rows]),
        "domainId": np.array([row[2] for row in rows]),
        "category": np.array([row[3] for row in rows], dtype=object),
        "text": np.array([row[4] for row in rows], dtype=object),
    }


def _category(label: str) -> int:
    """Give the category of one of our ranges, its level."""
    return _LEVELS.index(label.split(".")[0]) + 1
