"""NVTX: ranges, marks, and the rows that name domains and categories."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from tests.tracebuilder.identity import (
    DEFAULT_PROCESS,
    DEFAULT_THREAD,
    Row,
    Text,
    check_integer,
    check_span,
    main_thread,
)

CATEGORY: Final = 33
MARK: Final = 34
THREAD_NAME: Final = 39
PUSH_POP: Final = 59
START_END: Final = 60
DOMAIN_CREATE: Final = 75

PayloadType = Literal["uint64", "int64", "double", "uint32", "int32", "float"]

_PAYLOAD_COLUMNS: Final[dict[PayloadType, str]] = {
    "uint64": "uint64Value",
    "int64": "int64Value",
    "double": "doubleValue",
    "uint32": "uint32Value",
    "int32": "int32Value",
    "float": "floatValue",
}


@dataclass(frozen=True, slots=True)
class Range:
    """A row of NVTX_EVENTS.

    Attributes:
        text: The message. An empty one, or None, leaves both `text` and `textId` NULL.
        end_ns: NULL if None: a mark, or a range that was never closed.
        registered: Whether the message is a registered string, which goes to textId.
        event_type: START_END if there is a range_id, else PUSH_POP.
        payload_type: "int64" if None, for a float "double".
        range_id: What tells start/end ranges from each other.
        end_thread: The globalTid that ended it, only if it is another one.
    """

    text: Text | None
    start_ns: int
    end_ns: int | None
    thread: int = field(default=DEFAULT_THREAD, kw_only=True)
    registered: bool = field(default=False, kw_only=True)
    event_type: int | None = field(default=None, kw_only=True)
    domain: int = field(default=0, kw_only=True)
    category: int | None = field(default=None, kw_only=True)
    color: int | None = field(default=None, kw_only=True)
    payload: int | float | None = field(default=None, kw_only=True)
    payload_type: PayloadType | None = field(default=None, kw_only=True)
    range_id: int | None = field(default=None, kw_only=True)
    end_thread: int | None = field(default=None, kw_only=True)
    json_text: Text | None = field(default=None, kw_only=True)
    binary_data: Text | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.end_ns is None:
            check_integer(self.start_ns)
        else:
            check_span(self.start_ns, self.end_ns)
        if self.payload_type is not None and self.payload_type not in _PAYLOAD_COLUMNS:
            raise ValueError(f"no payload type {self.payload_type!r}")

    def columns(self) -> Row:
        """Give the row, in the columns of all versions."""
        usual = PUSH_POP if self.range_id is None else START_END
        row: Row = {
            "start": self.start_ns,
            "end": self.end_ns,
            "eventType": usual if self.event_type is None else self.event_type,
            "rangeId": self.range_id,
            "category": self.category,
            "color": self.color,
            "textId" if self.registered else "text": self.text or None,
            "globalTid": self.thread,
            "endGlobalTid": self.end_thread,
            "domainId": self.domain,
            "jsonText": self.json_text,
            "binaryData": self.binary_data,
        }
        if self.payload is not None:
            usual_type: PayloadType = "double" if isinstance(self.payload, float) else "int64"
            row[_PAYLOAD_COLUMNS[self.payload_type or usual_type]] = self.payload
        return row


def mark(text: Text, start_ns: int, *, thread: int = DEFAULT_THREAD, domain: int = 0) -> Range:
    """Give a mark."""
    return Range(text, start_ns, None, thread=thread, domain=domain, event_type=MARK)


def nvtx_domain(
    name: Text, domain: int, *, process: int = DEFAULT_PROCESS, start_ns: int = 0
) -> Range:
    """Give the row that names a domain; the default domain, 0, has none."""
    thread = main_thread(process)
    return Range(name, start_ns, None, thread=thread, domain=domain, event_type=DOMAIN_CREATE)


def nvtx_category(
    name: Text, category: int, *, domain: int = 0, process: int = DEFAULT_PROCESS, start_ns: int = 0
) -> Range:
    """Give the row that names a category of a domain."""
    return Range(
        name,
        start_ns,
        None,
        thread=main_thread(process),
        domain=domain,
        category=category,
        event_type=CATEGORY,
    )
