"""Rules that tell what an NVTX range is about. They are data: users can put theirs in front.

A rule looks at the domain and the text of a range, and gives it a level and a phase: those of
`overlapaudit_nvtx.vocabulary`, or what another engine calls its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from overlapaudit.classify.range_rule import Meaning, RangeRule, parse_rule
from overlapaudit.classify.rule_files import bundled_entries, user_entries
from overlapaudit.model.kinds import RangeKind
from overlapaudit.model.tables import Schema

# The columns that `classify_ranges` adds; all null where no rule matches.
RANGE_MEANING: Final[Schema] = {
    "level": pl.Categorical(),
    "phase": pl.Categorical(),
    "engine": pl.Categorical(),
    "key": pl.Int64(),  # the payload, else the number in the text
    "facts": pl.String(),  # what follows the bar, as it stands there
}

_BUNDLED = "range_rules.json"
_KEY = "ranges"
_NEVER_NS = 2**63 - 1

# What PyTorch's emit_nvtx adds to the name of an operation (getNvtxStr in its source).
_SUFFIX = (
    r"(?s)(?:, seq = [0-9]+)?(?:, op_id = [0-9]+)?(?:, sizes = \[.*\])?"
    r"(?:, input_op_ids = \[.*\])?$"
)


@dataclass(frozen=True, slots=True)
class DomainRules:
    """The rules that count in one domain, by the first character of the texts they can match."""

    by_first: Mapping[str, tuple[RangeRule, ...]]
    others: tuple[RangeRule, ...]  # for texts that begin with any other character

    def matches(self, text: str) -> list[tuple[RangeRule, Meaning]]:
        """Give the first rule that matches; before it, those that would if it is inside."""
        found: list[tuple[RangeRule, Meaning]] = []
        for rule in self.by_first.get(text[:1], self.others):
            meaning = rule.meaning(text)
            if meaning is not None:
                found.append((rule, meaning))
                if rule.only_inside is None:
                    break
        return found


@dataclass(frozen=True, slots=True)
class RangeRules:
    """Ordered rules; the first that matches decides."""

    rules: tuple[RangeRule, ...]

    @property
    def domains(self) -> set[str]:
        """The domains that have rules of their own."""
        return {rule.domain for rule in self.rules if rule.domain is not None}

    def of_domain(self, domain: str | None) -> DomainRules:
        """Give the rules that count in a domain (None: the default domain)."""
        counted = [
            (rule, _first_character(rule.pattern))
            for rule in self.rules
            if rule.domain is None or rule.domain == domain
        ]
        return DomainRules(
            {
                first: tuple(rule for rule, begins in counted if begins in (first, None))
                for first in {begins for _, begins in counted if begins is not None}
            },
            tuple(rule for rule, begins in counted if begins is None),
        )

    @classmethod
    def load(cls, user_file: Path | None = None) -> RangeRules:
        """Load the bundled rules, behind those of the user's own file if there is one.

        The file is JSON: {"ranges": [{"level": ..., "phase": ..., "re": ...}, ...]}, each rule
        with engine, domain, map, else and only_inside where it needs them. It may hold rules for
        kernels as well, or only those. A group of the pattern named id, iter, layer, stage or n
        gives the range's number, one named kv its facts.

        Raises:
            UsageError: the file cannot be read, or a rule in it is not one.
        """
        rules = _parse(bundled_entries(_BUNDLED, _KEY), _BUNDLED)
        if user_file is not None:
            rules = _parse(user_entries(user_file, _KEY), user_file.name) + rules
        return cls(rules)


def classify_ranges(ranges: pl.DataFrame, rules: RangeRules) -> pl.DataFrame:
    """Add the columns of `RANGE_MEANING` to a frame of ranges, whose rows stay as they are.

    A rule with `only_inside` is tried where a range lies inside one whose phase comes from a rule
    without.
    """
    texts = ranges.select("domain", text=pl.col("text").str.replace(_SUFFIX, ""))
    distinct = texts.unique(maintain_order=True).with_row_index("text_id")
    meanings, of_text, inside = _meanings(distinct, rules)
    # Joined by the texts alone: a join of all columns would copy them.
    text_id = texts.join(
        distinct, on=["domain", "text"], how="left", nulls_equal=True, maintain_order="left"
    )["text_id"]
    which = of_text.gather(text_id)
    if len(inside):
        which = _inside(ranges, which, text_id, inside, meanings)
    table = pl.DataFrame(meanings, schema=RANGE_MEANING, orient="row")
    found = table.select(pl.all().gather(which))
    return ranges.with_columns(
        found.with_columns(
            key=pl.when(pl.col("level").is_not_null()).then(
                pl.coalesce(ranges["payload"], pl.col("key"))
            )
        )
    )


def names_of(ranges: pl.DataFrame) -> pl.Series:
    """Give what ranges of one kind are called: without emit_nvtx' numbers, and without facts."""
    return ranges.select(
        pl.when(pl.col("facts").is_not_null())
        .then(pl.col("text").str.splitn("|", 2).struct[0])
        .otherwise(pl.col("text").str.replace(_SUFFIX, ""))
        .alias("text")
    ).to_series()


def _meanings(
    distinct: pl.DataFrame, rules: RangeRules
) -> tuple[list[Meaning], pl.Series, pl.DataFrame]:
    """Look up each text once.

    Returns:
        The meanings that occur; for each text the number of its own; and the rows (text, order,
        phase, number) of what it would mean inside a range of that phase.
    """
    numbers: dict[Meaning, int] = {}
    of_domain = {domain: rules.of_domain(domain) for domain in rules.domains}
    anywhere = rules.of_domain(None)
    of_text: list[int | None] = []
    inside: list[tuple[int, int, str, int]] = []
    for text_id, domain, text in distinct.iter_rows():
        own = None
        matches = of_domain.get(domain, anywhere).matches(text) if text else ()
        for order, (rule, meaning) in enumerate(matches):
            number = numbers.setdefault(meaning, len(numbers))
            if rule.only_inside is None:
                own = number
            else:
                inside.append((text_id, order, rule.only_inside, number))
        of_text.append(own)
    schema = {"text_id": pl.UInt32, "order": pl.UInt32, "phase": pl.String, "then": pl.UInt32}
    return (
        list(numbers),
        pl.Series(of_text, dtype=pl.UInt32),
        pl.DataFrame(inside, schema=schema, orient="row"),
    )


def _inside(
    ranges: pl.DataFrame,
    which: pl.Series,
    text_id: pl.Series,
    inside: pl.DataFrame,
    meanings: Sequence[Meaning],
) -> pl.Series:
    """Replace the meaning of ranges that lie inside one of the phase that a rule asks for."""
    place = ranges.select(
        "kind",
        "start_ns",
        "end_ns",
        thread=pl.col("thread").fill_null(-1),
        domain_id=pl.col("domain_id").fill_null(-1),
        which=which,
        text_id=text_id,
    ).with_row_index("row")
    asked = place.join(inside, on="text_id").sort("start_ns", nulls_last=True)
    held = []
    for phase in inside["phase"].unique():
        of_phase = [number for number, one in enumerate(meanings) if one.phase == phase]
        # A range that was not closed holds all that follows. Of those that began no later, the one
        # that reaches furthest tells whether any holds the range.
        around = (
            place.filter(
                pl.col("which").is_in(of_phase),
                pl.col("kind") != RangeKind.MARK.value,
                pl.col("start_ns").is_not_null(),
            )
            .sort("start_ns")
            .select(
                "thread",
                "domain_id",
                "start_ns",
                reach=pl.col("end_ns").fill_null(_NEVER_NS).cum_max().over("thread", "domain_id"),
            )
        )
        held.append(
            asked.filter(pl.col("phase") == phase)
            .join_asof(around, on="start_ns", by=["thread", "domain_id"], check_sortedness=False)
            .filter(pl.coalesce("end_ns", pl.col("start_ns") + 1) <= pl.col("reach"))
            .select("row", "order", "then")
        )
    first = pl.concat(held).sort("row", "order").unique("row", keep="first")
    joined = place.select("row", "which").join(first, on="row", how="left", maintain_order="left")
    return joined.select(pl.coalesce("then", "which")).to_series()


def _first_character(pattern: re.Pattern[str]) -> str | None:
    """Give the character that every text the pattern matches begins with, if it is easily seen."""
    source = pattern.pattern
    begins = re.match(r"\^(?:\\([^\w])|([\w:/ -]))(?![*?{])", source)
    if begins is None or pattern.flags != re.UNICODE or "(?#" in source:
        return None
    # An alternative outside all groups would have a beginning of its own.
    bare = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "_", source, flags=re.DOTALL)
    while (inner := re.sub(r"\([^()]*\)", "_", bare)) != bare:
        bare = inner
    return None if "|" in bare else begins[1] or begins[2]


def _parse(entries: list[object], file: str) -> tuple[RangeRule, ...]:
    return tuple(parse_rule(entry, f"{file}: range rule {n}") for n, entry in enumerate(entries, 1))
