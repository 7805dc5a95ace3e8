"""Put each operation into its class and lane."""

from __future__ import annotations

import polars as pl

from overlapaudit.classify.kernel_rules import KernelRules, is_communication
from overlapaudit.model.kinds import Direction, Lane, OpKind
from overlapaudit.model.tables import OPERATIONS, conform, enum_of

_LANE = enum_of(Lane)


def classify(operations: pl.DataFrame, rules: KernelRules) -> pl.DataFrame:
    """Fill the columns `class` (kernels that a rule knows) and `lane` (every operation)."""
    kernel_names = operations["name"].unique().drop_nulls()
    names = kernel_names.cast(pl.String).to_list()
    classes = [rules.class_of(name) for name in names]
    table = pl.DataFrame(
        {
            "name": kernel_names,
            "class": pl.Series(classes, dtype=pl.Categorical),
            "communicates": pl.Series(
                [
                    kernel_class is not None and is_communication(kernel_class)
                    for kernel_class in classes
                ],
                dtype=pl.Boolean,
            ),
        }
    )
    # Joined by its names alone: a join of all columns would copy them.
    found = operations.select("name").join(table, on="name", how="left", maintain_order="left")
    frame = operations.with_columns(found["class"], found["communicates"])
    return conform(frame.with_columns(_lane().alias("lane")), OPERATIONS)


def _lane() -> pl.Expr:
    kind = pl.col("kind")
    return (
        pl.when(kind == OpKind.KERNEL.value)
        .then(
            pl.when(pl.col("communicates").fill_null(False))
            .then(_word(Lane.COMM))
            .otherwise(_word(Lane.COMPUTE))
        )
        .when(pl.col("direction") == Direction.P2P.value)
        .then(_word(Lane.COMM))
        .when(kind == OpKind.MEMSET.value)
        .then(_word(Lane.MEMSET))
        .when(kind == OpKind.GRAPH.value)
        .then(_word(Lane.GRAPH))
        .otherwise(_word(Lane.COPY))
    )


def _word(lane: Lane) -> pl.Expr:
    return pl.lit(lane.value, dtype=_LANE)
