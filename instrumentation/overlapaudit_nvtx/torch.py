"""Marks the modules of a torch model by their names, without touching its code.

A module's `forward` is wrapped, not hooked: torch.compile traces through the wrapper and leaves it
out, where hooks make guards and break graphs. A compiled graph holds no markers of what is inside;
mark the call of the compiled module instead.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from typing import Any, Final, TypeAlias, cast

import torch

from overlapaudit_nvtx.compiling import COMPILER
from overlapaudit_nvtx.complaints import quiet, say_once
from overlapaudit_nvtx.live_marker import LiveMarker
from overlapaudit_nvtx.switches import SWITCHES, capturing
from overlapaudit_nvtx.tool import HERE
from overlapaudit_nvtx.vocabulary import Level

__all__ = ["Annotated", "annotate_modules", "capturing"]

# The layer's index, given the module's name; None where it has none.
IndexOf: TypeAlias = Callable[[str], int | None]

_LAYER: Final = SWITCHES[Level.LAYER.value]
_NUMBER: Final = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")
_FORWARD: Final = "forward"
_HAS_CUDA: Final = torch.version.cuda is not None or torch.version.hip is not None

COMPILER.notice()


class Annotated:
    """The modules that were marked, by name and phase; `undo` gives them back their `forward`."""

    def __init__(
        self, model: torch.nn.Module, phases: Mapping[str, str], index: IndexOf | None
    ) -> None:
        self.phases: dict[str, str] = {}
        self._wrapped: list[tuple[torch.nn.Module, _Forward]] = []
        self._annotate(model, phases, index or _first_number)

    def undo(self) -> None:
        """Take the markers away. What others have wrapped since keeps its wrapper."""
        for module, forward in reversed(self._wrapped):
            forward.retired = True
            if vars(module).get(_FORWARD) is forward:
                if forward.was_own:
                    vars(module)[_FORWARD] = forward.inner
                else:
                    del vars(module)[_FORWARD]
        self._wrapped.clear()

    @quiet
    def _annotate(self, model: torch.nn.Module, phases: Mapping[str, str], index: IndexOf) -> None:
        patterns = [(re.compile(translate(one)), one) for one in phases]
        unused = set(phases)
        for name, module in cast(Any, model).named_modules():
            for pattern, text in patterns:
                if pattern.match(name):
                    unused.discard(text)
                    self._add(name, module, phases[text], index(name))
                    break
        for text in sorted(unused):
            say_once(f"pattern {text[:80]}", f"no module is called {text[:80]!a}")

    def _add(self, name: str, module: torch.nn.Module, phase: str, index: int | None) -> None:
        self.phases[name] = phase
        if HERE.deaf:
            return
        forward = _Forward(module, LiveMarker(_LAYER, phase, index))
        vars(module)[_FORWARD] = forward
        self._wrapped.append((module, forward))


def annotate_modules(
    model: torch.nn.Module,
    phases: Mapping[str, str],
    *,
    index: IndexOf | None = None,
) -> Annotated:
    """Mark the calls of a model's modules as phases of its layers.

        annotate_modules(model, {"*.self_attn": "attn", "*.mlp.gate": "gate", "*.mlp": "expert"})

    Ranges are written where the level `layer` is on, and while a CUDA graph is captured even where
    it is off: a profiler knows the nodes of a graph by the ranges open at capture.

    Args:
        model: its `named_modules` are looked at.
        phases: from patterns of names (`*` stands for anything, dots included) to phases; the
            first pattern that matches decides.
        index: gives the layer's index; by default the first number in the name is taken, 12 of
            `model.layers.12.mlp.experts.3`.

    Returns:
        What was marked, to be looked at and undone. A pattern without a module is logged.
    """
    return Annotated(model, phases, index)


def _first_number(name: str) -> int | None:
    found = _NUMBER.search(name)
    return None if found is None else int(found[1])


class _Forward:
    """Stands in the place of a module's `forward`.

    An object and not a function: a copy of the module then calls its own code, not the original's.
    """

    def __init__(self, module: torch.nn.Module, marker: LiveMarker) -> None:
        self.was_own = _FORWARD in vars(module)
        self.inner: Callable[..., Any] = module.forward
        self.marker = marker
        self.retired = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if COMPILER.is_tracing() or self.retired or not (_LAYER.on or _is_capturing()):
            return self.inner(*args, **kwargs)
        opened = self.marker.open()
        try:
            return self.inner(*args, **kwargs)
        finally:
            self.marker.close(opened)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Forward:
        made = _Forward.__new__(_Forward)
        made.was_own, made.retired, made.marker = self.was_own, self.retired, self.marker
        made.inner = copy.deepcopy(self.inner, memo)
        return made


def _is_capturing() -> bool:
    """Say whether this thread's current stream captures a graph; without CUDA it does not."""
    try:
        return _HAS_CUDA and torch.cuda.is_current_stream_capturing()
    except RuntimeError:  # a context in error: the engine will hear of it from its own calls
        return False
