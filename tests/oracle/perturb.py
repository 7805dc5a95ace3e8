"""Changed copies of nsys SQLite exports, for which the right answer is known or easily found.

Columns are found by name in whatever tables there are, so that every schema version is served.
The same seed gives the same copy. The source is opened immutable and never written.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

GPU_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"

# 0 in one of these means that the time was not taken.
OPTIONAL_TIMES = (
    "timestamp", "rawTimestamp", "startedAt", "endedAt", "openedAt", "closedAt",
    "qmdBulkReleaseDone", "qmdPreexitDone", "qmdLastCtaDone",
)  # fmt: skip

GLOBAL_IDS = ("globalPid", "globalTid", "endGlobalTid")  # hardware, VM, process and thread in one
PROCESS_IDS = ("pid", "processId", "importedMemoryPoolProcessId")
STREAM_IDS = ("streamId", "nullStreamId")

PID_SHIFT, PID_LIMIT = 24, 1 << 24
NOT_APPLICABLE = 0xFFFFFFFF


def shift_times(src: Path, dst: Path, by_ns: int) -> None:
    """Move everything that happened by the same time, to before the session's start if need be."""
    with _changed_copy(src, dst) as database:
        for table, columns in _columns(database):
            if "start" in columns and "end" in columns:
                # IS NOT: ranges without an end have one of NULL, and must be moved all the same.
                database.execute(
                    f'UPDATE "{table}" SET start = start + :by, end = end + :by'
                    " WHERE start != 0 OR end IS NOT 0",
                    {"by": by_ns},
                )
            elif "start" in columns:
                database.execute(f'UPDATE "{table}" SET start = start + ?', (by_ns,))
            for column in _named(columns, OPTIONAL_TIMES):
                database.execute(
                    f'UPDATE "{table}" SET "{column}" = "{column}" + ? WHERE "{column}" != 0',
                    (by_ns,),
                )
            if table == "ANALYSIS_DETAILS":
                # The session's end: ranges still open then end exactly there.
                database.execute("UPDATE ANALYSIS_DETAILS SET duration = duration + ?", (by_ns,))


def renumber_processes(src: Path, dst: Path, seed: int) -> dict[int, int]:
    """Give every process another id, and return the new global ids by the old ones.

    The hardware, VM and thread bits stay as they are.
    """
    with _changed_copy(src, dst) as database:
        global_ids = _values(database, GLOBAL_IDS)
        pids = {_pid(one) for one in global_ids} | _values(database, PROCESS_IDS)
        new_pid = _renumbered(pids - {0}, range(1, PID_LIMIT), seed) | {0: 0}

        def new_global_id(old: int) -> int:
            return old + ((new_pid[_pid(old)] - _pid(old)) << PID_SHIFT)

        _replace(database, GLOBAL_IDS, new_global_id)
        _replace(database, PROCESS_IDS, new_pid.__getitem__)
        processes = {one & ~(PID_LIMIT - 1) for one in global_ids}
        return {old: new_global_id(old) for old in processes}


def renumber_streams(src: Path, dst: Path, seed: int) -> None:
    """Give every stream another id, the null stream too."""
    with _changed_copy(src, dst) as database:
        old = _values(database, STREAM_IDS) - {NOT_APPLICABLE}
        new = _renumbered(old, range(1, 100_000), seed) | {NOT_APPLICABLE: NOT_APPLICABLE}
        _replace(database, STREAM_IDS, new.__getitem__)


def drop_rows(src: Path, dst: Path, share: float, seed: int) -> None:
    """Lose a share of the rows of every GPU table, and of the calls."""
    draw = random.Random(seed)
    with _changed_copy(src, dst) as database:
        for table in (*GPU_TABLES, RUNTIME):
            if table in dict(_columns(database)):
                rows = [row for (row,) in database.execute(f"SELECT rowid FROM {table}")]
                lost = draw.sample(rows, round(share * len(rows)))
                database.executemany(
                    f"DELETE FROM {table} WHERE rowid = ?", [(row,) for row in lost]
                )


def swap_row_order(src: Path, dst: Path, seed: int) -> None:
    """Store the rows of every table in another order (but where a key fixes it)."""
    draw = random.Random(seed)
    with _changed_copy(src, dst) as database:
        database.create_function("draw", 0, draw.random)
        for table, _ in _columns(database):
            database.execute(
                f'CREATE TEMP TABLE shuffled AS SELECT * FROM main."{table}" ORDER BY draw()'
            )
            database.execute(f'DELETE FROM main."{table}"')
            database.execute(f'INSERT INTO main."{table}" SELECT * FROM temp.shuffled')
            database.execute("DROP TABLE temp.shuffled")


@contextmanager
def _changed_copy(src: Path, dst: Path) -> Iterator[sqlite3.Connection]:
    if dst.exists():
        raise FileExistsError(dst)
    with closing(sqlite3.connect(dst)) as database:
        uri = f"{src.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as source:
            source.backup(database)
        # Nobody reads the copy before it is finished, and a crash costs nothing.
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA journal_mode = OFF")
        yield database
        database.commit()


def _columns(database: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Give the tables, each with the names of its columns."""
    tables = database.execute(
        "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'"
        " ESCAPE '\\'"
    ).fetchall()
    return [
        (table, [row[1] for row in database.execute(f'PRAGMA main.table_info("{table}")')])
        for (table,) in tables
    ]


def _named(columns: Collection[str], wanted: Collection[str]) -> list[str]:
    return [column for column in columns if column in wanted]


def _values(database: sqlite3.Connection, wanted: Collection[str]) -> set[int]:
    """Give every value of the columns with these names, in all tables."""
    return {
        value
        for table, columns in _columns(database)
        for column in _named(columns, wanted)
        for (value,) in database.execute(f'SELECT DISTINCT "{column}" FROM "{table}"')
        if value is not None
    }


def _replace(
    database: sqlite3.Connection, wanted: Collection[str], new_of: Callable[[int], int]
) -> None:
    database.create_function("new_of", 1, new_of, deterministic=True)
    for table, columns in _columns(database):
        for column in _named(columns, wanted):
            database.execute(
                f'UPDATE "{table}" SET "{column}" = new_of("{column}") WHERE "{column}" IS NOT NULL'
            )


def _pid(global_id: int) -> int:
    return (global_id >> PID_SHIFT) & (PID_LIMIT - 1)


def _renumbered(old: Collection[int], choice: range, seed: int) -> dict[int, int]:
    new = random.Random(seed).sample(choice, len(old))
    return dict(zip(sorted(old), new, strict=True))
