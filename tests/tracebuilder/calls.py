"""API calls, and what every row that an API call causes has in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from tests.tracebuilder.identity import (
    DEFAULT_PROCESS,
    Row,
    Text,
    check_integer,
    check_span,
)
from tests.tracebuilder.versions import Schema


class Launch(Enum):
    """How a row comes by the API call that caused it."""

    AUTO = "auto"


AUTO: Final = Launch.AUTO
"""The builder writes the API call, with a name and times that fit the row."""

LAUNCH_LEAD_NS: Final = 5000
"""How long before GPU work its usual call begins."""
LAUNCH_NS: Final = 3000
"""How long the usual call lasts."""

NO_CORRELATION: Final = -1
"""The correlationId is NULL."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of the CUDA runtime or driver.

    Attributes:
        thread: The globalTid; the main thread of the process if None.
        correlation: A number of its own if None.
        event_class: 0 runtime, 1 driver; told from the name if None. Traces with backtraces have a
            second row for a call, of class 67 and with the bare name.
    """

    name: Text
    start_ns: int
    end_ns: int
    thread: int | None = None
    correlation: int | None = None
    event_class: int | None = None
    return_value: int = 0

    def __post_init__(self) -> None:
        check_span(self.start_ns, self.end_ns)
        check_correlation(self.correlation)

    def columns(self, thread: int, correlation: int) -> Row:
        """Give the row of CUPTI_ACTIVITY_KIND_RUNTIME, with what was found for the call."""
        return {
            "start": self.start_ns,
            "end": self.end_ns,
            "eventClass": self._class() if self.event_class is None else self.event_class,
            "globalTid": thread,
            "correlationId": null_if_none(correlation),
            "nameId": self.name,
            "returnValue": self.return_value,
        }

    def _class(self) -> int:
        name = self.name if isinstance(self.name, bytes) else self.name.encode()
        return int(name.startswith(b"cu") and not name.startswith(b"cuda"))


@dataclass(frozen=True, slots=True)
class Activity:
    """A row that an API call causes: GPU work, a wait, an event record.

    Attributes:
        correlation: A number of its own if None, NULL if NO_CORRELATION. Several rows may share
            one, as the nodes of a graph do.
        green_context: What the version writes for none if None: NULL, or 0 from 3.16 on.
        thread: The globalTid of the usual call; the process's main thread if None.
        launch: AUTO for the usual call (one for all rows that share a correlation, and none if
            `api_calls` has it), a call of one's own, or None for no row of the call.
    """

    table: ClassVar[str]
    start_ns: int
    end_ns: int
    device: int = field(default=0, kw_only=True)
    context: int = field(default=1, kw_only=True)
    stream: int = field(default=7, kw_only=True)
    correlation: int | None = field(default=None, kw_only=True)
    process: int = field(default=DEFAULT_PROCESS, kw_only=True)
    green_context: int | None = field(default=None, kw_only=True)
    thread: int | None = field(default=None, kw_only=True)
    launch: ApiCall | Launch | None = field(default=AUTO, kw_only=True)

    def __post_init__(self) -> None:
        check_span(self.start_ns, self.end_ns)
        check_correlation(self.correlation)

    def usual_call(self) -> ApiCall:
        """Give the call that AUTO writes."""
        raise NotImplementedError

    def columns(self, schema: Schema, correlation: int) -> Row:
        """Give the row, in the columns of all versions."""
        raise NotImplementedError


def place(row: Activity, schema: Schema, correlation: int) -> Row:
    """Give the columns that say where a row belongs, which all such tables share."""
    none = 0 if schema.at_least("3.16.1") else None
    return {
        "deviceId": row.device,
        "contextId": row.context,
        "greenContextId": none if row.green_context is None else row.green_context,
        "streamId": row.stream,
        "correlationId": null_if_none(correlation),
        "globalPid": row.process,
    }


def timed(row: Activity, schema: Schema, correlation: int) -> Row:
    """Give when and where a row was, for the tables that say when."""
    return {"start": row.start_ns, "end": row.end_ns, **place(row, schema, correlation)}


def ahead(row: Activity, name: str) -> ApiCall:
    """Give a call that ends before the work begins."""
    start_ns = row.start_ns - LAUNCH_LEAD_NS
    return ApiCall(name, start_ns, start_ns + LAUNCH_NS)


def null_if_none(correlation: int | None) -> int | None:
    """Give what stands in the column: NULL for NO_CORRELATION."""
    return None if correlation == NO_CORRELATION else correlation


def check_correlation(correlation: int | None) -> None:
    """Refuse a correlation id that CUPTI could not have given."""
    if correlation is None or correlation == NO_CORRELATION:
        return
    check_integer(correlation)
    if not 0 <= correlation < 1 << 32:
        raise ValueError(f"correlation {correlation} does not fit into 32 bits")
