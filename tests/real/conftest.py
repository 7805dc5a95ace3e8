"""Where the real traces and the real nsys are: both are named by the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def traces() -> Path:
    """Give the folder of real traces."""
    return _from_environment("OVERLAPAUDIT_TRACES", "the folder of real traces")


@pytest.fixture(scope="session")
def nsys() -> Path:
    """Give a real nsys."""
    return _from_environment("OVERLAPAUDIT_NSYS", "the path of an nsys")


def _from_environment(variable: str, what: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} does not name {what}")
    return Path(value)
