"""Noise: keyed by the work, the same everywhere, and of the size that it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib import resources
from itertools import pairwise
from statistics import fmean, pstdev, quantiles

import pytest

from overlapaudit_engine.hardware.hardware import Spread
from overlapaudit_engine.noise import make_tables
from overlapaudit_engine.noise.noise import Noise
from overlapaudit_engine.work import Key

SPREAD = Spread(4_600, 5_700, 8_200, 18_000)


def keys(count: int, site: str = "gemm") -> list[Key]:
    return [Key(0, number // 100, site, number % 100) for number in range(count)]


def test_the_tables_are_those_that_the_script_makes() -> None:
    file = resources.files("overlapaudit_engine.noise") / "data" / "factors.json"
    assert json.loads(file.read_text(encoding="utf-8")) == make_tables.tables()


def test_without_noise_all_is_as_planned() -> None:
    noise = Noise(7, 0)
    for key in keys(5):
        assert (noise.factor(key), noise.clock(0, 3), noise.straggles(key)) == (1.0, 1.0, False)
        assert noise.cost(key, SPREAD) == SPREAD.p50


@pytest.mark.parametrize("percent", [2, 5, 15])
def test_the_spread_is_the_one_it_says(percent: int) -> None:
    noise = Noise(1, percent)
    drawn = [noise.instance(key) for key in keys(20_000)]
    assert fmean(drawn) == pytest.approx(1, abs=0.003)
    assert pstdev(drawn) == pytest.approx(percent / 100, rel=0.03)
    # And of what an operation lasts in all: half of it lies within 0.674 sigma.
    lower, _, upper = quantiles([noise.factor(key) for key in keys(20_000)], n=4)
    assert (upper - lower) / 2 / 0.6745 == pytest.approx(percent / 100, rel=0.06)


def test_levels_that_there_are() -> None:
    with pytest.raises(ValueError, match="noise of 3 per cent: 0, 2, 5, 15"):
        Noise(1, 3)


def test_stragglers_are_rare_and_long() -> None:
    noise = Noise(3, 2)
    found = [noise.factor(key) for key in keys(200_000) if noise.straggles(key)]
    assert 8 <= len(found) <= 40
    assert all(1.9 < factor < 10.5 for factor in found)
    assert max(noise.factor(key) for key in keys(20_000) if not noise.straggles(key)) < 1.12


def test_the_clock_wanders_slowly() -> None:
    noise = Noise(3, 15)
    found = [noise.clock(0, iteration) for iteration in range(2_000)]
    steps = [abs(one - other) for one, other in pairwise(found)]
    assert max(steps) < 0.005
    assert 0.96 < min(found) < 0.98
    assert 1.02 < max(found) < 1.04
    assert [noise.clock(1, iteration) for iteration in range(2_000)] != found


def test_costs_have_the_percentiles_of_their_spread() -> None:
    noise = Noise(2, 2)
    found = [noise.cost(key, SPREAD) for key in keys(20_000, "launch")]
    for share, figure in ((0.1, 4_600), (0.5, 5_700), (0.9, 8_200), (0.99, 18_000)):
        below = sum(cost <= figure for cost in found) / len(found)
        assert below == pytest.approx(share, abs=0.01)
    assert max(found) <= 2 * SPREAD.p99


def test_draws_depend_on_the_key_alone() -> None:
    noise, again = Noise(5, 5), Noise(5, 5)
    drawn = {key: noise.factor(key) for key in keys(300)}
    assert {key: again.factor(key) for key in reversed(keys(300))} == drawn
    assert Counter(drawn.values()).most_common(1)[0][1] <= 3
    assert Noise(6, 5).factor(keys(1)[0]) != drawn[keys(1)[0]]
    # Every part of a key counts, and what is asked about it.
    one = Key(0, 0, "a", 0)
    others = [Key(1, 0, "a", 0), Key(0, 1, "a", 0), Key(0, 0, "b", 0), Key(0, 0, "a", 1)]
    assert len({noise.instance(key) for key in [one, *others]}) == 5


def test_another_process_with_another_hash_seed_draws_the_same() -> None:
    program = (
        "from overlapaudit_engine.noise.noise import Noise\n"
        "from overlapaudit_engine.work import Key\n"
        "print([Noise(9, 15).factor(Key(2, 3, 'attention', n)) for n in range(50)])"
    )
    path = ":".join(sys.path)
    said = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert said == {f"{[Noise(9, 15).factor(Key(2, 3, 'attention', n)) for n in range(50)]}\n"}
