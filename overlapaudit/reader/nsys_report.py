"""Turn an `.nsys-rep` into an SQLite export with the nsys that is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from overlapaudit.model.errors import InputError

SUFFIXES = (".nsys-rep", ".qdrep")
UNFINISHED_SUFFIX = ".qdstrm"


def export(report: Path) -> tuple[Path, Callable[[], None]]:
    """Export a report to a temporary folder.

    Returns:
        The SQLite file, and what removes it again.

    Raises:
        InputError: nsys is not on the PATH, or it cannot export the report.
    """
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            f"{report.name}: reading a report needs nsys, which is not on the PATH; "
            f"run 'nsys export --type sqlite' where it is and give the .sqlite file"
        )
    folder = Path(tempfile.mkdtemp(prefix="overlapaudit-"))

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    target = folder / "report.sqlite"
    command = [nsys, "export", "--type", "sqlite", "--force-overwrite", "true",
               "--output", str(target), str(report.absolute())]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        remove()
        raise InputError(f"{report.name}: nsys cannot be run ({error.strerror})") from error
    # nsys reports some failures with exit status 0 and no file.
    if done.returncode != 0 or not target.exists() or target.stat().st_size == 0:
        remove()
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise InputError(
            f"{report.name}: nsys cannot export it ({said[-1] if said else 'no reason given'}); "
            "use an nsys at least as new as the one that recorded it"
        )
    return target, remove
