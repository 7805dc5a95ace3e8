"""Modules marked by name: eager, copied, compiled, exported, and given back."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from overlapaudit_nvtx import disable, enable, layer, mech, switches  # noqa: E402
from overlapaudit_nvtx import torch as marked_torch  # noqa: E402
from overlapaudit_nvtx.torch import annotate_modules  # noqa: E402
from tests.markers.recorder import Recorder  # noqa: E402


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        return self.linear(x).relu() * scale


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.mlp = Part(), Part()

    def forward(self, x: Any) -> Any:
        return self.mlp(self.self_attn(x), scale=2.0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x: Any) -> Any:
        for one in self.layers:
            x = one(x)
        return x


PHASES = {"*.self_attn": "attn", "*.mlp": "expert"}
EAGER = [
    line
    for index in (0, 1)
    for phase in ("attn", "expert")
    for line in (f"push layer.{phase} {index}", f"pop layer.{phase} {index}")
]


@pytest.fixture
def model(tool: Recorder) -> Model:
    torch.manual_seed(0)
    return Model()


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def ones() -> Any:
    return torch.ones(2, 4)


def test_modules_are_marked_and_given_back(tool: Recorder, model: Model) -> None:
    expected = model(ones())
    annotated = annotate_modules(model, PHASES)
    assert annotated.phases == {
        f"layers.{index}.{name}": phase
        for index in (0, 1)
        for name, phase in (("self_attn", "attn"), ("mlp", "expert"))
    }
    assert torch.equal(model(ones()), expected)
    assert tool.take() == EAGER
    annotated.undo()
    annotated.undo()
    assert torch.equal(model(ones()), expected)
    assert tool.take() == []
    assert not any("forward" in vars(module) for module in model.modules())


def test_the_first_pattern_decides_and_the_index_may_be_said(
    tool: Recorder, model: Model, complained: list[str]
) -> None:
    annotate_modules(
        model,
        {"layers.0.mlp": "shared", "*.mlp": "expert", "*.mlp*": "gate", "*.experts": "expert"},
        index=lambda name: 10 + int(name.split(".")[1]),
    )
    model(ones())
    assert [line for line in tool.take() if line.startswith("push")] == [
        "push layer.shared 10", "push layer.gate 10", "push layer.expert 11", "push layer.gate 11",
    ]  # fmt: skip
    assert complained == ["no module is called '*.experts'"]


def test_what_is_wrong_in_the_names_is_survived(tool: Recorder, model: Model) -> None:
    def index(name: str) -> int:
        raise KeyError(name)

    annotate_modules(model, PHASES, index=index)
    odd: Any = {"*": 5, 7: "attn"}
    annotate_modules(model, odd)
    annotate_modules(object(), PHASES)  # type: ignore[arg-type]
    model(ones())


def test_errors_pass_and_close_the_range(tool: Recorder, model: Model) -> None:
    annotate_modules(model, PHASES)
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.ones(2, 5))
    assert tool.take() == EAGER[:2]


def test_copies_call_their_own_code(tool: Recorder, model: Model) -> None:
    annotated = annotate_modules(model, PHASES)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert twin(ones()).abs().sum() == 0
    assert model(ones()).abs().sum() > 0
    assert tool.take() == EAGER * 2
    annotated.undo()
    assert twin(ones()).abs().sum() == 0


def test_models_can_be_saved(tool: Recorder, model: Model) -> None:
    expected = model(ones())
    annotate_modules(model, PHASES)
    assert model.state_dict().keys() == Model().state_dict().keys()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = Model()
    fresh.load_state_dict(torch.load(file))
    assert torch.equal(fresh(ones()), expected)


def test_undo_under_a_later_wrapper_keeps_it(tool: Recorder, model: Model) -> None:
    part = model.layers[0].self_attn
    annotated = annotate_modules(model, PHASES)
    ours = part.forward
    part.forward = lambda x: ours(x) + 1
    expected = model(ones())
    tool.take()
    annotated.undo()
    assert torch.equal(model(ones()), expected)
    assert tool.take() == []


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_compiled_models_have_one_graph(
    tool: Recorder, model: Model, compiled_anew: None, on: bool
) -> None:
    expected = model(ones())
    annotate_modules(model, PHASES)
    if not on:
        disable()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(ones()), expected)
    enable()
    assert torch.allclose(compiled(ones()), expected)
    assert tool.take() == []
    explained = torch._dynamo.explain(model)(ones())
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    tool.take()
    model(ones())
    assert tool.take() == EAGER


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.index = nn.Linear(4, 4), 3

    @layer("attn", lambda self, *_: self.index)
    def inner(self, x: Any) -> Any:
        return self.linear(x)

    def forward(self, x: Any) -> Any:
        with layer("gate", self.index), mech("tbo.a", consumes=["x"], part=1):
            x = self.inner(x)
        return x


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_markers_in_compiled_code_are_left_out(
    tool: Recorder, compiled_anew: None, on: bool, listens: bool
) -> None:
    if not listens:
        switches.use_tool(None)
    if not on:
        disable()
    module = Decorated()
    expected = module(ones())
    tool.take()
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert torch.equal(compiled(ones()), expected)
    assert tool.take() == []


def test_models_can_be_exported(tool: Recorder, model: Model) -> None:
    annotate_modules(model, PHASES)
    expected = model(ones())
    exported = torch.export.export(model, (ones(),))
    assert torch.allclose(exported.module()(ones()), expected)


def test_layers_are_written_while_a_graph_is_captured(
    tool: Recorder, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate_modules(model, PHASES)
    disable()
    model(ones())
    assert tool.take() == []
    monkeypatch.setattr(marked_torch, "_is_capturing", lambda: True)
    model(ones())
    assert tool.take() == EAGER


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: captures a CUDA graph")
def test_a_real_capture_writes_layers(tool: Recorder, model: Model) -> None:
    model.cuda()
    annotate_modules(model, PHASES)
    disable()
    x = ones().cuda()
    model(x)
    torch.cuda.synchronize()
    assert tool.take() == []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    assert tool.take() == EAGER
    graph.replay()
    assert tool.take() == []


def test_without_a_tool_modules_stay_as_they_are() -> None:
    switches.use_tool(None)
    model = Model()
    annotated = annotate_modules(model, PHASES)
    assert len(annotated.phases) == 4
    assert not any("forward" in vars(module) for module in model.modules())
    annotated.undo()
