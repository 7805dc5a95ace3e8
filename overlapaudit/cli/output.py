"""Write what a command was asked to write, and never over what the user has."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from overlapaudit.model.errors import UsageError

STDOUT = Path("-")


def check_target(target: Path, inputs: Iterable[Path], *, force: bool) -> None:
    """Refuse a file that exists, and any input even by force, before the work begins.

    Raises:
        UsageError: the file must not or cannot be written.
    """
    if target == STDOUT:
        return
    for given in inputs:
        if target.exists() and given.exists() and target.samefile(given):
            raise UsageError(f"{target}: is an input; name another file")
    if target.is_dir():
        raise UsageError(f"{target}: is a folder; name a file")
    if target.is_file() and not force:
        raise UsageError(f"{target}: exists; --force overwrites it")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{target}: its folder does not exist")


def write(target: Path, text: str) -> None:
    """Write a file whole or not at all, and say so; `-` is stdout.

    Raises:
        UsageError: the file cannot be written.
    """
    if target == STDOUT:
        sys.stdout.write(text)
        return
    target = target.resolve()  # what a link names is written, the link stays
    try:
        if target.exists() and not target.is_file():  # a device, a pipe
            target.write_text(text, encoding="utf-8", newline="\n")
            return
        handle, name = tempfile.mkstemp(dir=target.absolute().parent, prefix=".overlapaudit-")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror})") from error
    typer.echo(f"Wrote {target}", err=True)


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Give a path to write to, in a folder of its own; the file then takes the target's place.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(
            dir=target.absolute().parent, prefix=".overlapaudit-"
        ) as folder:
            temporary = Path(folder) / "file"
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(target)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror})") from error
    typer.echo(f"Wrote {target}", err=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
