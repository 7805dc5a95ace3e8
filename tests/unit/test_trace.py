"""A trace is read through one connection, however many threads ask for its tables."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import polars as pl

from overlapaudit.model import tables
from overlapaudit.model.tables import TableName
from overlapaudit.model.trace import InputIdentity, Recording, Trace


class OneReader:
    """A source that notices when it is asked for a second table before the first is given."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.loaded: Counter[TableName] = Counter()

    def load(self, table: TableName) -> pl.DataFrame:
        assert self.busy.acquire(blocking=False), "two threads read at once"
        time.sleep(0.002)  # a reading thread lets others run
        self.loaded[table] += 1
        self.busy.release()
        return tables.empty(table)

    def identity(self) -> InputIdentity:
        raise NotImplementedError

    def recording(self) -> Recording:
        raise NotImplementedError

    def close(self) -> None:
        pass


def test_threads_that_ask_at_once_read_one_after_another_and_once() -> None:
    source = OneReader()
    trace = Trace(source, {})
    wanted = [name for name in TableName for _ in range(4)]
    with ThreadPoolExecutor(max_workers=8) as threads:
        frames = list(threads.map(trace.table, wanted))
    assert source.loaded == dict.fromkeys(TableName, 1)
    assert len({id(frame) for frame in frames}) == len(TableName)
