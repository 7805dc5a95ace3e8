"""Waits of the host and of streams, and the event records that they wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from tests.tracebuilder.calls import Activity, ApiCall, place, timed
from tests.tracebuilder.identity import NOT_APPLICABLE, Row
from tests.tracebuilder.versions import Schema, SyncKind, sync_type

_NAMES: Final[dict[SyncKind, str]] = {
    "event_sync": "cudaEventSynchronize_v3020",
    "event_query": "cudaEventQuery_v3020",
    "stream_wait": "cudaStreamWaitEvent_v3020",
    "stream_sync": "cudaStreamSynchronize_v3020",
    "device_sync": "cudaDeviceSynchronize_v3020",
}
_WITH_STREAM: Final = frozenset({"stream_wait", "stream_sync"})
_WITH_EVENT: Final = frozenset({"event_sync", "event_query", "stream_wait"})


@dataclass(frozen=True, slots=True)
class Sync(Activity):
    """An explicit synchronization; its usual call takes the very same time.

    Attributes:
        kind: What is waited for. `stream` is written where the kind has one: the stream that waits
            (stream_wait) or that is waited for (stream_sync).
        event_id: The event object; needed for the kinds that have one.
        event_sync_id: The record waited for. If None, NULL for the kinds with an event, and what
            the version writes for none for the others.
        sync_type: The number that the version stores for such a call if None, which is not the
            one of its enum table (see versions).
    """

    table: ClassVar[str] = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    kind: SyncKind = "stream_sync"
    event_id: int | None = field(default=None, kw_only=True)
    event_sync_id: int | None = field(default=None, kw_only=True)
    sync_type: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        Activity.__post_init__(self)
        if self.kind not in _NAMES:
            raise ValueError(f"no kind of wait {self.kind!r}; there are {', '.join(_NAMES)}")
        if (self.event_id is not None) is not (self.kind in _WITH_EVENT):
            raise ValueError(f"{self.kind} with event_id={self.event_id}")

    def usual_call(self) -> ApiCall:
        """Give the call that waits like this."""
        return ApiCall(_NAMES[self.kind], self.start_ns, self.end_ns)

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        number = sync_type(schema, self.kind) if self.sync_type is None else self.sync_type
        sync_id = self.event_sync_id
        if sync_id is None and self.kind not in _WITH_EVENT:
            sync_id = 0 if schema.at_least("3.25.0") else NOT_APPLICABLE
        return {
            **timed(self, schema, correlation),
            "greenContextId": self.green_context,  # NULL for none in every version
            "streamId": self.stream if self.kind in _WITH_STREAM else NOT_APPLICABLE,
            "syncType": number,
            "eventId": NOT_APPLICABLE if self.event_id is None else self.event_id,
            "eventSyncId": sync_id,
        }


@dataclass(frozen=True, slots=True)
class EventRecord(Activity):
    """A record of an event. Its times are those of its call: the row itself has none.

    Attributes:
        event_id: The event object.
        event_sync_id: The number of this very record (from 3.24.0 on).
        timestamp_ns: When the device came to it, 0 if that was not traced (from 3.24.0 on).
    """

    table: ClassVar[str] = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
    event_id: int = 1
    event_sync_id: int | None = field(default=None, kw_only=True)
    timestamp_ns: int = field(default=0, kw_only=True)

    def usual_call(self) -> ApiCall:
        """Give cudaEventRecord."""
        return ApiCall("cudaEventRecord_v3020", self.start_ns, self.end_ns)

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        return {
            **place(self, schema, correlation),
            "timestamp": self.timestamp_ns,
            "eventId": self.event_id,
            "eventSyncId": self.event_sync_id,
        }
