"""Functions of every kind, each call of which is marked."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, Protocol, TypeAlias

from overlapaudit_nvtx.compiling import COMPILER
from overlapaudit_nvtx.complaints import say_once
from overlapaudit_nvtx.resumed import Resumed
from overlapaudit_nvtx.switches import Switch

_Body: TypeAlias = Generator[Any, Any, Any]


class Marking(Protocol):
    """What is asked of a marker here."""

    switch: Switch
    whole: bool

    def open(self, args: tuple[Any, ...] = ..., named: Mapping[str, Any] = ...) -> Any:
        """Open a range for a call."""
        ...

    def event(self, args: tuple[Any, ...] = ..., named: Mapping[str, Any] = ...) -> Any:
        """Give what to write in a call."""
        ...

    def close(self, opened: Any) -> None:
        """Close what `open` gave, None included."""
        ...


def wrap(marker: Marking, function: Any) -> Any:
    """Mark each call of `function`. It stays of its kind: a coroutine function stays one."""
    COMPILER.notice()
    decorated: Any = function
    if isinstance(function, (staticmethod, classmethod)):
        return type(decorated)(wrap(marker, decorated.__func__))
    if isinstance(function, type) or not callable(function):
        say_once("decorated", f"a marker decorates functions, not a {type(function).__name__}")
        return function
    runs = decorated
    if not inspect.isroutine(function) and not isinstance(function, functools.partial):
        runs = type(decorated).__call__  # an object that is called: what counts is its method
    make: Callable[[Marking, Any], Any] = _plain
    if inspect.iscoroutinefunction(runs):
        make = _coroutine
    elif inspect.isasyncgenfunction(runs):
        make = _async_generator
    elif inspect.isgeneratorfunction(runs):
        make = _generator
    return make(marker, decorated)


def _plain(marker: Marking, function: Callable[..., Any]) -> Callable[..., Any]:
    switch = marker.switch

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not switch.on or COMPILER.is_tracing():
            return function(*args, **kwargs)
        opened = marker.open(args, kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            marker.close(opened)

    return run


def _coroutine(marker: Marking, function: Callable[..., Any]) -> Callable[..., Any]:
    switch = marker.switch

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        if not switch.on:
            return await function(*args, **kwargs)
        if not marker.whole:
            event = marker.event(args, kwargs)
            body = function(*args, **kwargs)
            return await (body if event is None else Resumed(body, event))
        opened = marker.open(args, kwargs)
        try:
            return await function(*args, **kwargs)
        finally:
            marker.close(opened)

    return run


def _generator(marker: Marking, function: Callable[..., _Body]) -> Callable[..., _Body]:
    switch = marker.switch

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> _Body:
        if not switch.on:
            return (yield from function(*args, **kwargs))
        if not marker.whole:
            event = marker.event(args, kwargs)
            body = function(*args, **kwargs)
            return (yield from (body if event is None else Resumed(body, event)))
        opened = marker.open(args, kwargs)
        try:
            return (yield from function(*args, **kwargs))
        finally:
            marker.close(opened)

    return run


def _async_generator(marker: Marking, function: Callable[..., Any]) -> Callable[..., Any]:
    switch = marker.switch

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        is_on = switch.on
        event = marker.event(args, kwargs) if is_on and not marker.whole else None
        opened = marker.open(args, kwargs) if is_on and marker.whole else None
        body = function(*args, **kwargs)
        step = body.__anext__()
        try:
            # What `yield from` would do, if async generators had it.
            while True:
                try:
                    item = await (step if event is None else Resumed(step, event))
                except StopAsyncIteration:
                    return
                try:
                    sent = yield item
                except GeneratorExit:
                    step = body.aclose()
                    await (step if event is None else Resumed(step, event))
                    raise
                except BaseException as error:  # noqa: BLE001 - the body's to handle
                    step = body.athrow(error)
                else:
                    step = body.asend(sent)
        finally:
            marker.close(opened)

    return run
