"""The fields of an export that name a host, a user or a variable, by the name beside the value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from overlapaudit.reader.schema import CAPTURE_SETTINGS, EXPORT_SETTINGS, SYSTEM, Table

# Tables of (name, value), in the order in which hosts and users are numbered.
NAMED_VALUES: tuple[Table, ...] = (SYSTEM, CAPTURE_SETTINGS, EXPORT_SETTINGS)


class Field(Enum):
    """What a value is, told from its name."""

    HOST = "host"
    USER = "user"
    DEVICE = "device"  # "Local (CLI)", or the name of a remote host
    SETTING = "setting"  # one environment variable
    ENVIRONMENT = "environment"  # several
    COMMAND = "command"
    MACHINE_ID = "machine id"
    OTHER = "other"


_FIELDS = tuple(
    (re.compile(pattern, re.IGNORECASE), field)
    for pattern, field in (
        (r"ENVIRONMENT_VARIABLE", Field.SETTING),
        (r".*ENVIRONMENT", Field.ENVIRONMENT),
        (r"DEVICE_DISPLAY_NAME|(.*_)?HOST|.*HOST_?NAME|.*COMPUTER_?NAME", Field.HOST),
        (r"(.*_)?USER|.*USER_?NAME", Field.USER),
        (r"DEVICE_ID|devStateName", Field.DEVICE),
        (r"COMMAND|ARGUMENT_\d+|COMMAND_?LINE", Field.COMMAND),
        (r"SystemUID|.*SerialNumber|MachineId", Field.MACHINE_ID),
    )
)
DEVICE_COLUMN = "devStateName"  # of several tables
_PROCESS_PREFIX = re.compile(r"^PROCESS_\d+:")
_DEVICE = re.compile(r"(?P<name>.+?)(?P<how> \([^()]*\))?", re.DOTALL)
_LOCAL = "local"


def field_of(name: str) -> Field:
    """Tell what the value beside this name is."""
    bare = _PROCESS_PREFIX.sub("", name)
    return next((field for pattern, field in _FIELDS if pattern.fullmatch(bare)), Field.OTHER)


@dataclass(frozen=True, slots=True)
class Device:
    """A device as nsys calls it: a host's name, None for this machine, and how it is reached."""

    host: str | None
    how: str


def device_of(text: str) -> Device:
    """Read `NAME (HOW)`."""
    match = _DEVICE.fullmatch(text)
    if match is None or match["name"].lower() == _LOCAL:
        return Device(None, "")
    return Device(match["name"], match["how"] or "")
