"""Requests: their phases cross threads, overlap, are cut short, begin again, or never end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final, TypeAlias

from overlapaudit_nvtx import request_ids
from overlapaudit_nvtx.complaints import quiet, say_once
from overlapaudit_nvtx.levels import Fact
from overlapaudit_nvtx.live_marker import LiveMarker
from overlapaudit_nvtx.marker import NO_SPAN, Marker, Span
from overlapaudit_nvtx.switches import SWITCHES
from overlapaudit_nvtx.tool import HERE
from overlapaudit_nvtx.vocabulary import PHASES, Level

_SWITCH: Final = SWITCHES[Level.REQUEST.value]
# Phases that are open at once, of all requests; past that the oldest is taken for forgotten.
_MOST_OPEN: Final = 65_536

_Place: TypeAlias = tuple[int | str, str]  # which request, which phase
_Started: TypeAlias = tuple[int, Span]  # how many were started before it
# Each step on it is one that dictionaries do whole: no lock, which a child forked in the wrong
# moment would hold for ever.
_OPEN: dict[_Place, _Started] = {}
_STARTS: Iterator[int] = itertools.count()


class Request:
    """The request of one id. Any number of these may stand for the same one, on any thread."""

    __slots__ = ("_id",)

    def __init__(self, identity: object) -> None:
        self._id = identity

    def start(self, phase: str, **facts: Fact) -> None:
        """Start a phase: frontend, queue, prefill, xfer, decode.

        One that is open already (a preempted request begins again) ends here.
        """
        if _SWITCH.on:
            self._start(phase, facts)

    def end(self, phase: str | None = None) -> None:
        """End a phase, if it is open; without a name, the one that was started last."""
        if _OPEN:
            self._end(phase)

    def close(self) -> None:
        """End all that is open: the request is done, aborted or failed. It may start again."""
        if _OPEN or _SWITCH.on:
            self._close()

    def phase(self, phase: str, **facts: Fact) -> Marker:
        """Give a phase as a decorator or for `with` and `async with`.

        In a decorator the id of the request may be a function of the call's arguments.
        """
        if HERE.deaf:
            return Marker()
        return LiveMarker(_SWITCH, phase, self._id, facts=facts, whole=True)

    @quiet
    def _start(self, phase: str, facts: dict[str, Fact]) -> None:
        place = request_ids.key_of(self._id), phase
        # Ended before the new one starts, so that the two do not overlap.
        _end(place)
        span = LiveMarker(_SWITCH, phase, self._id, facts=facts).start()
        if span is NO_SPAN:
            return
        started = next(_STARTS), span
        # Whoever starts it on another thread at this moment is ended as well.
        while _OPEN.setdefault(place, started) is not started:
            _end(place)
        if len(_OPEN) > _MOST_OPEN:
            say_once("open requests", "too many requests that do not end: the oldest are ended")
            for oldest in list(_OPEN)[: _MOST_OPEN // 2]:
                _end(oldest)

    @quiet
    def _end(self, phase: str | None) -> None:
        key = request_ids.key_of(self._id)
        if phase is not None:
            _end((key, phase))
            return
        places = _places(key)
        if places:
            _end(places[-1])

    @quiet
    def _close(self) -> None:
        key = request_ids.key_of(self._id)
        for place in _places(key):
            _end(place)
        request_ids.forget(key)


def _places(key: int | str) -> list[_Place]:
    """Give the open phases of a request in the order in which they were started."""
    asked = [(key, phase) for phase in PHASES[Level.REQUEST.value]]
    found = [(_OPEN.get(place), place) for place in asked]
    return [place for _, place in sorted((one[0], place) for one, place in found if one)]


def _end(place: _Place) -> None:
    started = _OPEN.pop(place, None)
    if started is not None:
        started[1].end()


def request(identity: object) -> Request:
    """Name a request by its id: an integer, or anything that has a text of its own."""
    return Request(identity)
