"""The JSON contract: what `audit --json` writes, as dataclasses. The JSON Schema is derived here.

Times are integer ns. Null means that a figure could not be computed; `coverage.not_recorded`
names it and says why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from overlapaudit.model.findings import Finding
from overlapaudit.model.trace import InputIdentity

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Tool:
    """What wrote the document."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class AuditedWindow:
    """What was asked for: `trace`, `iteration`, or A..B from the session start.

    `devices` describes A..B, else the whole trace; by `iteration` findings alone are judged.
    """

    kind: str
    start_ns: int | None
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class WaitCounts:
    """Waits on an event, by how well the record that they wait for is known."""

    exact: int
    inferred: int
    unresolved: int


@dataclass(frozen=True, slots=True)
class NotRecorded:
    """Something that could not be judged, why, and the nsys option that would have recorded it."""

    what: str
    why: str
    capture_with: str | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the whole trace holds and how far its parts fit together."""

    operations: int | None
    operations_with_launch: int | None
    launches: int | None
    launches_with_operation: int | None
    gpu_ns_in_ranges_share: float | None
    waits: WaitCounts | None
    opaque_graph_ns: int | None
    clock_violations: int | None
    not_recorded: tuple[NotRecorded, ...]


@dataclass(frozen=True, slots=True)
class Lanes:
    """Time of each lane of a device, each a union."""

    compute: int | None
    comm: int | None
    copy: int | None
    memset: int | None
    graph: int | None


@dataclass(frozen=True, slots=True)
class Copies:
    """Time of copies in each direction, each a union."""

    h2d: int | None
    d2h: int | None
    d2d: int | None
    p2p: int | None
    h2h: int | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two lanes or copy directions; `a` = `b`: two or more streams at once."""

    a: str
    b: str
    a_ns: int
    b_ns: int
    overlap_ns: int
    exposed_a_ns: int
    exposed_b_ns: int


@dataclass(frozen=True, slots=True)
class Device:
    """What one device did for one process in the window.

    `window_ns` runs from the first start to the last end of its GPU work in the trace, clipped to
    the window asked for. `exposed` is the time of a lane that no other lane covers.
    """

    process: int
    rank: int
    device: int
    name: str | None
    window_ns: int
    busy_ns: int | None
    idle_ns: int | None
    lanes: Lanes
    exposed: Lanes
    copies: Copies
    overlap: tuple[Overlap, ...]
    unclassified_ns: int


@dataclass(frozen=True, slots=True)
class Span:
    """All ranges of one level and phase.

    `host_ns` is the time that the ranges were open, `span_ns` the sum of their GPU envelopes
    (first start to last end), `busy_ns` of the unions of their GPU work, `operations` how many
    operations they launched. The three are null for start/end ranges of threads that launch
    nothing: their work is on other threads.
    """

    level: str
    phase: str
    count: int
    host_ns: int
    span_ns: int | None
    busy_ns: int | None
    operations: int | None


@dataclass(frozen=True, slots=True)
class HiddenSync:
    """A call site where the host waited for the GPU, or blocked, without need.

    Of OA504 the site is where the first work that bound was put into the legacy default stream:
    streams wait for it, no thread of the host does, and `host_wait_ns` is 0.
    `span` is the range that the calls were made in. `gpu_idle_ns` is the idle time that follows
    directly from the waits; `saving_ns` what replay says would be saved.
    """

    code: str
    api: str
    process: int
    thread: int
    span: str | None
    count: int
    host_wait_ns: int
    gpu_idle_ns: int | None
    saving_ns: int | None


@dataclass(frozen=True, slots=True)
class Collectives:
    """The communication kernels of one kind on one device.

    Of `count`, `matched` are known to be the same as on other ranks. Of these, `wait_ns` is the
    time until the last rank had entered, `transfer_ns` the rest; `entered_last` counts those that
    this rank entered last. The three are null where none was matched.
    """

    process: int
    rank: int
    device: int
    kind: str
    count: int
    matched: int
    wait_ns: int | None
    transfer_ns: int | None
    entered_last: int | None


@dataclass(frozen=True, slots=True)
class Ranks:
    """What several ranks tell about each other.

    `clocks` is one_session (all in one file), aligned (by the ends of collectives) or
    not_comparable (at least one file). Nine of ten collectives end closer together than
    `residual_ns` on the aligned clocks.
    """

    clocks: str
    residual_ns: int | None
    collectives: tuple[Collectives, ...]


@dataclass(frozen=True, slots=True)
class AuditDocument:
    """The whole audit. Fields typed null belong to analyses that this version does not make."""

    format_version: int
    tool: Tool
    inputs: tuple[InputIdentity, ...]
    window: AuditedWindow
    coverage: Coverage
    devices: tuple[Device, ...] | None
    findings: tuple[Finding, ...]
    spans: tuple[Span, ...] | None = None
    critical_path: None = None
    contention: None = None
    hidden_syncs: tuple[HiddenSync, ...] | None = None
    ranks: Ranks | None = None
    pairs: None = None
    mechanisms: None = None
    requests: None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain dicts, lists, numbers and strings."""
        return {key: _plain(value) for key, value in asdict(self).items()}

    def to_json(self) -> str:
        """Give the JSON text: keys sorted, ASCII, the same bytes for the same audit."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.value if isinstance(value, Enum) else value
