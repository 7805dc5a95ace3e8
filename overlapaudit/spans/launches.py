"""Operations by where they were launched: what a range of a thread launched is then one slice.

GPU work belongs to the ranges that were open on the launching thread when the launching call
began, never to those that were open when it ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """Operations in the order of (thread, time) of their launch.

    Attributes:
        thread: int64 [n], the launching thread (globalTid), ascending.
        launched_ns: int64 [n], when the launching call began, ascending within a thread.
        operation: int64 [n], the row of the operation in OPERATIONS.
        launch: int64 [n], what tells launches apart: the row of the call in API_CALLS.
    """

    thread: Rows
    launched_ns: Rows
    operation: Rows
    launch: Rows

    def slices(self, thread: Rows, start_ns: Rows, end_ns: Rows) -> tuple[Rows, Rows]:
        """Give, for each range, the slice [first, last) of what was launched in [start, end).

        Args:
            thread: int64 [ranges].
            start_ns: int64 [ranges].
            end_ns: int64 [ranges].
        """
        first = np.zeros(len(thread), dtype=np.int64)
        last = np.zeros(len(thread), dtype=np.int64)
        order = np.argsort(thread, kind="stable")
        by_thread = thread[order]
        for one in np.unique(self.thread):
            begin, end = np.searchsorted(self.thread, [one, one + 1])
            of_ranges = slice(*np.searchsorted(by_thread, [one, one + 1]))
            mine = order[of_ranges]
            times = self.launched_ns[begin:end]
            first[mine] = begin + np.searchsorted(times, start_ns[mine], "left")
            last[mine] = begin + np.searchsorted(times, end_ns[mine], "left")
        return first, np.maximum(first, last)

    def operations_in(self, ranges: pl.DataFrame) -> Rows:
        """Give the operations that were launched in any of these ranges, each once."""
        first, last = self.slices(
            ranges["thread"].to_numpy(), ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()
        )
        open_ranges = np.zeros(len(self.operation) + 1, dtype=np.int64)
        np.add.at(open_ranges, first, 1)
        np.add.at(open_ranges, last, -1)
        return self.operation[np.cumsum(open_ranges)[:-1] > 0]

    def where(self, keep: npt.NDArray[np.bool_]) -> LaunchOrder:
        """Give these operations only."""
        return LaunchOrder(
            self.thread[keep], self.launched_ns[keep], self.operation[keep], self.launch[keep]
        )


def by_launch(operations: pl.DataFrame, calls: pl.DataFrame) -> LaunchOrder:
    """Order the operations that have a launching call."""
    rows = np.flatnonzero(operations["api_row"].is_not_null().to_numpy())
    call = operations["api_row"].drop_nulls().to_numpy()
    return _ordered(
        thread=calls["thread"].to_numpy()[call],
        launched_ns=calls["start_ns"].to_numpy()[call],
        operation=rows,
        launch=call,
    )


def by_capture(operations: pl.DataFrame, nodes: pl.DataFrame) -> LaunchOrder:
    """Order the nodes of replayed graphs by where their originals were captured.

    The node of an executable graph is a copy, perhaps of a copy. Only the original was created
    inside the captured call. A node that was copied may have a row of its own that names none,
    so an original is a node of which no row names another.
    """
    graph_nodes = operations.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
        "process",
        "api_row",
        node="graph_node",
    ).drop_nulls(["node"])
    placed = graph_nodes.join(_captured(nodes), on=["process", "node"], maintain_order="left")
    return _ordered(
        thread=placed["thread"].to_numpy(),
        launched_ns=placed["start_ns"].to_numpy(),
        operation=placed["row"].to_numpy(),
        launch=placed["api_row"].fill_null(-1).to_numpy(),
    )


_MOST_COPIES = 32
_THREAD_BITS = 0xFFFFFF


def _captured(nodes: pl.DataFrame) -> pl.DataFrame:
    """Give for every copied node the place (`thread`, `start_ns`) where its original was made."""
    thread = pl.col("thread")
    known = nodes.drop_nulls(["node", "thread", "start_ns"]).with_columns(
        (thread - (thread & _THREAD_BITS)).alias("process")
    )
    copied_from = (
        known.drop_nulls(["original"])
        .filter(pl.col("node") != pl.col("original"))
        .select("process", "node", "original")
        .unique(["process", "node"], keep="first", maintain_order=True)
    )
    found = copied_from.rename({"original": "root"})
    above = copied_from.rename({"node": "root", "original": "above"})
    for _ in range(_MOST_COPIES):
        further = found.join(above, on=["process", "root"], how="left", maintain_order="left")
        if further["above"].null_count() == further.height:
            break
        found = further.select("process", "node", root=pl.coalesce("above", "root"))
    originals = (
        known.join(copied_from, on=["process", "node"], how="anti", maintain_order="left")
        .unique(["process", "node"], keep="first", maintain_order=True)
        .select("process", "thread", "start_ns", root="node")
    )
    return found.join(originals, on=["process", "root"]).drop("root")


def _ordered(*, thread: Rows, launched_ns: Rows, operation: Rows, launch: Rows) -> LaunchOrder:
    order = np.lexsort((operation, launched_ns, thread))
    return LaunchOrder(thread[order], launched_ns[order], operation[order], launch[order])
