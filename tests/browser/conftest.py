"""A browser without a network, and what a page did in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browser.parsed import Page
from tests.cli.conftest import run

__all__ = ["run"]

_VARIABLE = "OVERLAPAUDIT_CHROMIUM"
_PLACES = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9",
    "--virtual-time-budget=30000", "--window-size=1280,2400",
    "--enable-logging=stderr", "--v=0", "--dump-dom",
)  # fmt: skip


@dataclass(frozen=True)
class Opened:
    """A page after it was opened: its elements, and what it wrote on the console."""

    page: Page
    console: list[str]


Open = Callable[[Path], Opened]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Give the browser."""
    named = os.environ.get(_VARIABLE)
    found = [place for place in (named, *_PLACES) if place and shutil.which(place)]
    if not found:
        pytest.skip(f"no Chromium: {_VARIABLE} does not name one, and none is in /usr/bin")
    return found[0]


@pytest.fixture
def open_page(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """Give what opens a file from disk, with no network."""

    def opened(path: Path) -> Opened:
        profile = tmp_path_factory.mktemp("profile")
        done = subprocess.run(
            [chromium, *_FLAGS, f"--user-data-dir={profile}", path.as_uri()],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        console = [line for line in done.stderr.splitlines() if re.search(r"\bCONSOLE\b", line)]
        return Opened(Page.of(done.stdout), console)

    return opened
