"""Arguments and options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Traces: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="TRACE...",
        help="An nsys SQLite export, a parquetdir or arrowdir, a .nsys-rep (needs nsys), or a "
        "folder of ranks. Several traces are several ranks.",
        show_default=False,
    ),
]
Rules: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='Rules before the bundled ones. Kernels: {"rules": [["class", "regex"], ...]}; '
        'ranges: {"ranges": [{"re": "regex", "level": "layer", "phase": "attn"}, ...]}.',
        show_default=False,
    ),
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
