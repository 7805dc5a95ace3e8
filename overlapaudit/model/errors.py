"""The errors that a user can cause, each with the exit code that it ends the command with."""

from __future__ import annotations


class OverlapAuditError(Exception):
    """Say in one line what is wrong, where, and what to do about it."""

    exit_code = 3

    def __init__(self, message: str) -> None:
        # What SQLite, polars or a file name brings in may have lines of its own.
        super().__init__(" ".join(message.split()))


class InputError(OverlapAuditError):
    """The input cannot be used."""

    exit_code = 3


class UsageError(OverlapAuditError):
    """The request cannot be served as it was made."""

    exit_code = 2
