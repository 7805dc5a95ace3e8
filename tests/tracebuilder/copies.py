"""Copies and memsets, and the kinds of memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from tests.tracebuilder.calls import Activity, ApiCall, ahead, timed
from tests.tracebuilder.identity import Row
from tests.tracebuilder.versions import Schema

Direction = Literal["h2d", "d2h", "d2d", "h2h", "p2p"]
MemoryKind = Literal["pageable", "pinned", "device", "array", "managed"]

_MEMORY_KINDS: Final[dict[MemoryKind, int]] = {
    "pageable": 0,
    "pinned": 1,
    "device": 2,
    "array": 3,
    "managed": 4,
}
# copyKind, and the kinds of memory where nothing else is said
_DIRECTIONS: Final[dict[Direction, tuple[int, MemoryKind, MemoryKind]]] = {
    "h2d": (1, "pinned", "device"),
    "d2h": (2, "device", "pinned"),
    "d2d": (8, "device", "device"),
    "h2h": (9, "pinned", "pinned"),
    "p2p": (10, "device", "device"),
}


@dataclass(frozen=True, slots=True)
class Copy(Activity):
    """A memory copy.

    Attributes:
        direction: One of Direction, or a copyKind.
        src_kind: The usual one of the direction if None (pinned for the host's side); a number is
            written as it is.
        dst_kind: As src_kind.
        src_device: For p2p, the device if None; else NULL, as in the files.
        dst_device: For p2p, the device after `device` if None; else NULL.
    """

    table: ClassVar[str] = "CUPTI_ACTIVITY_KIND_MEMCPY"
    direction: Direction | int = "h2d"
    bytes: int = 1 << 20
    src_kind: MemoryKind | int | None = field(default=None, kw_only=True)
    dst_kind: MemoryKind | int | None = field(default=None, kw_only=True)
    src_device: int | None = field(default=None, kw_only=True)
    dst_device: int | None = field(default=None, kw_only=True)
    src_context: int | None = field(default=None, kw_only=True)
    dst_context: int | None = field(default=None, kw_only=True)
    copy_count: int = field(default=1, kw_only=True)
    graph_node: int | None = field(default=None, kw_only=True)
    migration_cause: int | None = field(default=None, kw_only=True)
    virtual_address: int | None = field(default=None, kw_only=True)

    def usual_call(self) -> ApiCall:
        """Give cudaMemcpyAsync, or cudaGraphLaunch for a node."""
        name = "cudaMemcpyAsync_v3020" if self.graph_node is None else "cudaGraphLaunch_v10000"
        return ahead(self, name)

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        kind, source, target = _direction(self.direction)
        src_device, dst_device = self.src_device, self.dst_device
        if kind == _DIRECTIONS["p2p"][0]:
            src_device = self.device if src_device is None else src_device
            dst_device = self.device + 1 if dst_device is None else dst_device
        return {
            **timed(self, schema, correlation),
            "bytes": self.bytes,
            "copyKind": kind,
            "srcKind": memory_kind(source if self.src_kind is None else self.src_kind),
            "dstKind": memory_kind(target if self.dst_kind is None else self.dst_kind),
            "srcDeviceId": src_device,
            "srcContextId": self.src_context,
            "dstDeviceId": dst_device,
            "dstContextId": self.dst_context,
            "migrationCause": self.migration_cause,
            "graphNodeId": self.graph_node,
            "virtualAddress": self.virtual_address,
            "copyCount": self.copy_count,
        }


@dataclass(frozen=True, slots=True)
class Memset(Activity):
    """A memory set."""

    table: ClassVar[str] = "CUPTI_ACTIVITY_KIND_MEMSET"
    bytes: int = 1 << 20
    value: int = field(default=0, kw_only=True)
    kind: MemoryKind | int = field(default="device", kw_only=True)
    graph_node: int | None = field(default=None, kw_only=True)

    def usual_call(self) -> ApiCall:
        """Give cudaMemsetAsync, or cudaGraphLaunch for a node."""
        name = "cudaMemsetAsync_v3020" if self.graph_node is None else "cudaGraphLaunch_v10000"
        return ahead(self, name)

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        return {
            **timed(self, schema, correlation),
            "value": self.value,
            "bytes": self.bytes,
            "graphNodeId": self.graph_node,
            "memKind": memory_kind(self.kind),
        }


def memory_kind(kind: MemoryKind | int) -> int:
    """Give the number that the export has for a kind of memory."""
    if isinstance(kind, int):
        return kind
    if kind not in _MEMORY_KINDS:
        raise ValueError(f"no kind of memory {kind!r}; there are {', '.join(_MEMORY_KINDS)}")
    return _MEMORY_KINDS[kind]


def _direction(direction: Direction | int) -> tuple[int, MemoryKind | int, MemoryKind | int]:
    if isinstance(direction, int):
        for usual in _DIRECTIONS.values():
            if usual[0] == direction:
                return usual
        return direction, 7, 7
    if direction not in _DIRECTIONS:
        raise ValueError(f"no direction {direction!r}; there are {', '.join(_DIRECTIONS)}")
    return _DIRECTIONS[direction]
