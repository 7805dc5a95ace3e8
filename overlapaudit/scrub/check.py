"""Make sure that nothing private is left: in the values by the same rules, and in the bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from overlapaudit.model.errors import InputError
from overlapaudit.scrub.contents import changed_fields, changed_values
from overlapaudit.scrub.database import Database
from overlapaudit.scrub.rewriter import Rewriter

# Four bytes of a timestamp can be anybody's name.
_SHORTEST_IN_BYTES = 6
_CHUNK = 1 << 24


def check_nothing_left(path: Path, rewriter: Rewriter, source: str) -> None:
    """Refuse a copy in which anything private is left; it is removed.

    Raises:
        InputError: with where it is.
    """
    with closing(Database.open(path)) as database:
        encoding = database.encoding
        place = next(_places(database, rewriter), None)
    if place is None and _in_bytes(path, rewriter, encoding):
        place = "bytes outside of all values"
    if place is not None:
        path.unlink()
        raise InputError(
            f"{source}: cannot be scrubbed of everything, something is left in {place}"
        )


def _places(database: Database, rewriter: Rewriter) -> Iterator[str]:
    if any(rewriter.text(statement) != statement for statement in database.definitions()):
        yield "the definitions of its tables"
    for row, _ in changed_fields(database, rewriter):
        yield row.table
    for table, column in database.text_columns:
        if changed_values(database, rewriter, table, column):
            yield f"{table}.{column}"


def _in_bytes(path: Path, rewriter: Rewriter, encoding: str) -> bool:
    errors = "surrogateescape" if encoding == "utf-8" else "replace"
    secrets = [secret.encode(encoding, errors) for secret in rewriter.secrets]
    words = [
        word.encode(encoding, errors) for word in rewriter.words if len(word) >= _SHORTEST_IN_BYTES
    ]
    longest = max(map(len, secrets + words), default=0)
    with path.open("rb") as file:
        rest = b""
        while chunk := file.read(_CHUNK):
            seen = rest + chunk
            if any(secret in seen for secret in secrets) or any(_is_word(seen, w) for w in words):
                return True
            rest = seen[-longest - 1 :]
    return False


def _is_word(seen: bytes, word: bytes) -> bool:
    """Tell whether the bytes hold a word that is not part of a longer one."""
    start = seen.find(word)
    while start >= 0:
        end = start + len(word)
        before, after = seen[max(start - 1, 0) : start], seen[end : end + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        start = seen.find(word, start + 1)
    return False
