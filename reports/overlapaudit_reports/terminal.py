"""What the terminal at hand can show."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass

_NARROWEST, _WIDEST = 72, 120


@dataclass(frozen=True, slots=True)
class Terminal:
    """Width in columns, whether it shows colour, whether it shows more than ASCII."""

    width: int = 80
    colour: bool = False
    unicode: bool = True

    @classmethod
    def of_stdout(cls) -> Terminal:
        """Look at stdout; a pipe gets 80 columns without colour."""
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size((80, 24)).columns if is_terminal else 80
        return cls(
            width=min(max(width, _NARROWEST), _WIDEST),
            colour=is_terminal and not os.environ.get("NO_COLOR"),
            unicode="utf" in (sys.stdout.encoding or "").lower(),
        )

    def styled(self, text: str, code: str) -> str:
        """Colour a text (an SGR code such as "1" or "31")."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def bar(self, part: int, whole: int, width: int) -> str:
        """Draw a share as a bar; any share above nothing shows."""
        if whole <= 0 or part <= 0:
            return ""
        eighths = max(1, part * width * 8 // whole)
        if not self.unicode:
            return "#" * max(1, eighths // 8)
        return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
