"""The markers that an engine writes, one function a level."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from overlapaudit_nvtx.compiling import COMPILER
from overlapaudit_nvtx.complaints import quiet, say_once
from overlapaudit_nvtx.live_marker import LiveMarker
from overlapaudit_nvtx.marker import Marker
from overlapaudit_nvtx.switches import SWITCHES, Switch
from overlapaudit_nvtx.tool import HERE
from overlapaudit_nvtx.vocabulary import Level
from overlapaudit_nvtx.wording import NOTHING, exact

# Of a decorator, any of these may be a function of the call's arguments instead.
Number: TypeAlias = int | Callable[..., int | None] | None
Data: TypeAlias = str | Iterable[str] | Callable[..., str | Iterable[str]]
Fact: TypeAlias = str | int | Callable[..., str | int | None] | None

_exact = quiet(exact)
_LAYER: Final = SWITCHES[Level.LAYER.value]
_ITERATION: Final = SWITCHES[Level.ITERATION.value]
_CACHE: Final = SWITCHES[Level.CACHE.value]
_MECH: Final = SWITCHES[Level.MECH.value]

# Markers of layers and mechanisms come again in each step, hundreds of them: each is made once.
_MOST_MADE: Final = 4096
_PLAIN: Final = (str, int, type(None))
_LAYERS: dict[Any, LiveMarker] = {}
_MECHS: dict[Any, LiveMarker] = {}


def layer(
    phase: str,
    index: Number = None,
    *,
    produces: Data = (),
    consumes: Data = (),
    whole: bool = False,
    **facts: Fact,
) -> Marker:
    """Mark a part of a layer: attn, tp_comm, gate, dispatch, expert, combine, shared.

    Args:
        phase: which part.
        index: the layer's index; as with all that follows, in a decorator it may be a function
            that is called with the arguments of each call.
        produces: what the work inside writes, such as `kv:3`; one name or several.
        consumes: what it reads.
        whole: one start/end range for all of a call, suspended or not, instead of pushed ones.
        facts: whatever else is to stand in the message.
    """
    if HERE.deaf:
        return Marker()
    if facts or whole:
        return LiveMarker(_LAYER, phase, index, (produces, consumes), facts, whole)
    return _once(_LAYERS, _LAYER, phase, index, produces, consumes)


def mech(
    stage: str,
    value: Number = None,
    *,
    produces: Data = (),
    consumes: Data = (),
    whole: bool = False,
    **facts: Fact,
) -> Marker:
    """Mark a stage of a mechanism: tbo.a, tbo.b, dbo.0, pp.send, migration.stage.

    Args:
        stage: the mechanism and its stage, small letters with dots between.
        value: a number of which the mechanism says what it is.
        produces: see `layer`.
        consumes: see `layer`.
        whole: see `layer`.
        facts: see `layer`.
    """
    if HERE.deaf:
        return Marker()
    if facts or whole:
        return LiveMarker(_MECH, stage, value, (produces, consumes), facts, whole)
    return _once(_MECHS, _MECH, stage, value, produces, consumes)


def iteration(
    phase: str,
    number: Number = None,
    *,
    produces: Data = (),
    consumes: Data = (),
    whole: bool = False,
    **facts: Fact,
) -> Marker:
    """Mark a part of a step: step, schedule, metadata_h2d, model, sample, result_d2h, process.

    Args:
        phase: which part; `step` is all of it.
        number: the step's number.
        produces: see `layer`.
        consumes: see `layer`.
        whole: see `layer`; for a step that awaits.
        facts: see `layer`; `tokens` and `requests` say how much work the step is, and are best
            given once, to `step`.
    """
    if HERE.deaf:
        return Marker()
    return LiveMarker(_ITERATION, phase, number, (produces, consumes), facts, whole)


def cache(
    phase: str,
    blocks: Number = None,
    *,
    produces: Data = (),
    consumes: Data = (),
    whole: bool = False,
    **facts: Fact,
) -> Marker:
    """Mark work on the KV cache: lookup, l3_l2, l2_l1, wait, fallback, store.

    Args:
        phase: what is done.
        blocks: how many blocks.
        produces: see `layer`.
        consumes: see `layer`.
        whole: see `layer`; for a wait that awaits.
        facts: see `layer`.
    """
    if HERE.deaf:
        return Marker()
    return LiveMarker(_CACHE, phase, blocks, (produces, consumes), facts, whole)


def mark(level: str, phase: str, key: Number | str = None, **facts: Fact) -> None:
    """Write a moment: something happened and took no time, such as `cache`, `fallback`.

    Args:
        level: request, iteration, layer, cache or mech.
        phase: one of the level's.
        key: the level's number; of a request its id.
        facts: see `layer`.
    """
    if HERE.deaf:
        return
    switch = SWITCHES.get(level if type(level) is str else _exact(level) or "")
    if switch is None:
        say_once("mark", f"mark takes one of {', '.join(SWITCHES)} first; the mark is left out")
    elif switch.on:
        LiveMarker(switch, phase, key, facts=facts).mark()


def _once(
    made: dict[Any, LiveMarker],
    switch: Switch,
    phase: str,
    key: Number,
    produces: Data,
    consumes: Data,
) -> LiveMarker:
    """Give the marker of these words, the same one each time if they are plain."""
    marker: LiveMarker | None = None
    words = phase, key, produces, consumes
    # One that was made before cannot be entered in code that torch.compile traces.
    traced = COMPILER.is_tracing()
    if not traced:
        try:
            marker = made.get(words)
        except Exception:  # noqa: BLE001 - lists have no hash, and what has one may be hostile
            marker = None
    if marker is None:
        marker = LiveMarker(switch, phase, key, (produces, consumes))
        if not traced:
            _keep(made, marker, words)
    return marker


@quiet
def _keep(made: dict[Any, LiveMarker], marker: LiveMarker, words: tuple[object, ...]) -> None:
    """Keep a marker for the next call with these words, if they are plain and few."""
    COMPILER.notice()
    if all(type(word) in _PLAIN or word is NOTHING for word in words):
        if len(made) >= _MOST_MADE:
            made.clear()
        made[words] = marker
