"""What the markers have to complain about goes to the log, once of each kind, and nowhere else."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LOG = logging.getLogger("overlapaudit_nvtx")
_SAID: set[str] = set()
# Kinds may hold words of the engine (a phase, a key): past this many the log is full anyway.
_MOST = 200


def say_once(kind: str, text: str) -> None:
    """Log a warning unless one of this kind was logged before."""
    if kind in _SAID or len(_SAID) >= _MOST:
        return
    _SAID.add(kind)
    try:
        _LOG.warning("%s", text)
    except Exception:  # noqa: BLE001 - a handler of the engine's that fails must not stop it
        return


def quiet(function: Callable[P, R]) -> Callable[P, R | None]:
    """Turn whatever goes wrong inside a function of ours into a complaint and None.

    Markers stand in the engine's hot path: no fault of theirs, of nvtx, or of an object that they
    were given may reach it. Interrupts and exits are not errors and pass.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see above
            failed(function.__qualname__, error)
            return None

    return run


def failed(where: str, error: Exception) -> None:
    """Complain about an error, by its type: its text may be as hostile as what raised it."""
    say_once(f"{where} {type(error)}", f"{where}: {type(error).__name__}, marker left out")
