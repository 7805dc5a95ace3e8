"""Open the traces that a command was given, and let go of them again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlapaudit.model.trace import Trace

_SILENT_FOR_S = 1.0
_REDRAW_EVERY_S = 0.1


@contextmanager
def opened(paths: Sequence[Path], rules: Path | None) -> Iterator[list[Trace]]:
    """Open every trace that the paths stand for.

    Raises:
        InputError: one of them cannot be used.
        UsageError: the rules cannot be used.
    """
    from overlapaudit.audit import find_traces, open_trace

    with ExitStack() as stack:
        show = stack.enter_context(progress_line())
        yield [
            stack.enter_context(open_trace(path, rules=rules, progress=show))
            for path in find_traces(paths)
        ]


def input_files(paths: Sequence[Path]) -> list[Path]:
    """Give every file that is read for these paths.

    Raises:
        InputError: a path has no trace.
    """
    from overlapaudit.audit import find_traces

    files: list[Path] = []
    for trace in find_traces(paths):
        files += trace.iterdir() if trace.is_dir() else [trace]
    return files


@contextmanager
def progress_line() -> Iterator[Callable[[str, int, int], None]]:
    """Show on a terminal's stderr how far the reading is, once it has taken a second."""
    began = time.monotonic()
    drawn = 0.0

    def show(what: str, done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if (
            sys.stderr is None
            or not sys.stderr.isatty()
            or now - began < _SILENT_FOR_S
            or now - drawn < _REDRAW_EVERY_S
        ):
            return
        drawn = now
        share = f"{100 * done // total:3d} %" if total else ""
        name = what.removeprefix("CUPTI_ACTIVITY_KIND_")
        sys.stderr.write(f"\r\x1b[Kreading {name[:30]} {done:,} rows {share}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
