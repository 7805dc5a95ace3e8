"""What an audit says about a trace, in the shape that reports and the JSON share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from overlapaudit.model.kinds import Confidence, Severity

# What a finding stands on: figures, and the rows they come from.
EvidenceValue = int | float | str | bool | None | Sequence[int] | Sequence[str]


@dataclass(frozen=True, slots=True)
class WindowRef:
    """A window that a finding holds in."""

    kind: str
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Where:
    """Where a finding holds; null: not bound to one."""

    process: int | None = None
    rank: int | None = None
    device: int | None = None
    thread: int | None = None
    stream: int | None = None
    range: str | None = None
    windows: tuple[WindowRef, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is worth knowing, with its evidence and what to do about it."""

    code: str
    slug: str
    severity: Severity
    confidence: Confidence
    where: Where
    evidence: Mapping[str, EvidenceValue] = field(default_factory=dict)
    cost_ns: int | None = None
    saving_ns: int | None = None
    layer: str | None = None
    tuning_step: int | None = None
    next_step: str = ""
