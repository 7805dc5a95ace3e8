"""Run the command line in this process, and see what came out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from overlapaudit.cli.main import run as overlapaudit_run


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that an error is."""
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("overlapaudit: ")
        return self.err.removeprefix("overlapaudit: ").rstrip("\n")


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give what runs `overlapaudit ARGUMENTS`."""

    def command(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["overlapaudit", *map(str, arguments)])
        capsys.readouterr()
        status = overlapaudit_run()
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return command
