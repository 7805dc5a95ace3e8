"""Whether torch.compile is tracing this code: a compiled graph holds no markers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final


def _never() -> bool:
    return False


class Compiler:
    """What to ask. torch is never imported here, only noticed once the engine has."""

    __slots__ = ("is_tracing",)

    def __init__(self) -> None:
        self.is_tracing: Callable[[], bool] = _never

    def notice(self) -> None:
        """Ask torch from now on, if it is there."""
        if self.is_tracing is not _never or "torch" not in sys.modules:
            return
        # While torch itself is being imported it has no compiler yet.
        asks = getattr(getattr(sys.modules["torch"], "compiler", None), "is_compiling", None)
        if asks is not None:
            self.is_tracing = asks


COMPILER: Final = Compiler()
