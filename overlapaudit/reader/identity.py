"""The content hash of an input, taken in a thread of its own while the input is read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20


def hash_file(path: Path) -> str:
    """Give the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def hash_files(paths: Sequence[Path]) -> str:
    """Give the SHA-256 over (name, SHA-256) of each file, in the order given."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0{hash_file(path)}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def hash_open_file(handle: BinaryIO) -> str:
    """Give the SHA-256 of a file's bytes without moving in it or closing it."""
    digest = hashlib.sha256()
    at = 0
    while chunk := os.pread(handle.fileno(), _CHUNK, at):
        digest.update(chunk)
        at += len(chunk)
    return digest.hexdigest()


def start(path: Path, files: Sequence[Path], handle: BinaryIO | None = None) -> Future[str]:
    """Begin to hash an input: one file (by its open handle, if there is one), or a folder's."""
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sha256")
    if handle is not None:
        job = executor.submit(hash_open_file, handle)
    elif path.is_dir():
        job = executor.submit(hash_files, files)
    else:
        job = executor.submit(hash_file, path)
    executor.shutdown(wait=False)
    return job
