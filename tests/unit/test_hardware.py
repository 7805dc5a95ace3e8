"""Hardware as data: every figure has a source, and none is out of this world."""

from __future__ import annotations

from dataclasses import fields

import pytest

from overlapaudit_engine.hardware.files import load, names, varied
from overlapaudit_engine.hardware.hardware import Hardware, Spread


def test_the_devices_there_are() -> None:
    assert names() == ("a100", "b200", "h100", "h200")
    with pytest.raises(ValueError, match="no hardware 'k80': a100, b200, h100, h200"):
        load("k80")


@pytest.mark.parametrize("name", names())
def test_every_figure_says_where_it_is_from(name: str) -> None:
    hardware = load(name)
    figures = {field.name for field in fields(Hardware)} - {"name", "sources"}
    assert set(hardware.sources) == figures
    for source in hardware.sources.values():
        assert source.partition(":")[0] in ("real", "sheet", "guess")


@pytest.mark.parametrize("name", names())
def test_percentiles_rise(name: str) -> None:
    hardware = load(name)
    spreads = [getattr(hardware, one.name) for one in fields(Hardware)]
    spreads = [one for one in spreads if isinstance(one, Spread)] + list(hardware.calls.values())
    assert len(spreads) > 30
    for one in spreads:
        assert 0 < one.p10 <= one.p50 <= one.p90 <= one.p99


def test_figures_as_the_sheets_and_traces_say() -> None:
    a100, h100, h200 = load("a100"), load("h100"), load("h200")
    assert (a100.sms, a100.hbm_rate, a100.flops) == (108, 2039.0, 312_000.0)
    assert (h100.sms, h100.hbm_rate, h100.link_rate) == (132, 3350.0, 450.0)
    assert (h200.sms, h200.hbm_rate, h200.l2_bytes) == (132, 4917.0, 60 * 2**20)
    assert a100.call("cudaLaunchKernel") == Spread(3_300, 3_700, 5_200, 12_000)
    assert h100.call("cudaLaunchKernel") == Spread(4_600, 5_700, 8_200, 18_000)
    assert h100.call("cudaSomethingElse") == h100.calls["*"]


def test_a_varied_device_is_another_of_its_kind() -> None:
    hardware = load("h100")
    one, other = varied(hardware, 1), varied(hardware, 2)
    assert one == varied(hardware, 1) != other
    assert (one.sms, one.name) == (hardware.sms, hardware.name)
    ratios = [
        getattr(varied(hardware, seed), name) / getattr(hardware, name)
        for seed in range(50)
        for name in ("hbm_rate", "flops", "pcie_h2d", "link_rate")
    ]
    assert 0.8 <= min(ratios) < 0.85
    assert 1.15 < max(ratios) <= 1.2
