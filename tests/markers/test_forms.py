"""The forms of a marker: what is written, in what order, and what the engine gets back."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from enum import Enum
from typing import Any

import pytest

from overlapaudit_nvtx import cache, disable, enable, iteration, layer, mark, mech, request
from overlapaudit_nvtx.vocabulary import Level
from tests.markers.recorder import Recorder


def test_a_with(tool: Recorder) -> None:
    with iteration("step", 7, tokens=512, requests=8):
        with layer("attn", 3, produces="kv:3", consumes=["q:3", "k:3"]):
            mark("cache", "fallback", 2)
        with mech("tbo.a"):
            pass
    assert tool.take() == [
        "push iteration.step|tokens=512,requests=8 7",
        "push layer.attn|produces=kv:3,consumes=q:3,consumes=k:3 3",
        "mark cache.fallback 2",
        "pop layer.attn|produces=kv:3,consumes=q:3,consumes=k:3 3",
        "push mech.tbo.a",
        "pop mech.tbo.a",
        "pop iteration.step|tokens=512,requests=8 7",
    ]


def test_a_decorated_function(tool: Recorder) -> None:
    class Attention:
        index = 3

        @layer("attn", lambda self, *_, **__: self.index, produces=lambda self, x, k: f"kv:{k}")
        def forward(self, x: int, *, k: int) -> int:
            """Attend."""
            tool.note(f"{x} {k}")
            return x + k

        @staticmethod
        @layer("gate")
        def gate(x: int) -> int:
            return x

        @layer("combine")
        @classmethod
        def combine(cls, x: int) -> tuple[type, int]:
            return cls, x

    assert Attention().forward(1, k=2) == 3
    assert Attention.gate(5) == Attention().gate(5) == 5
    assert Attention.combine(6) == (Attention, 6)
    assert Attention.forward.__name__ == "forward"
    assert Attention.forward.__doc__ == "Attend."
    assert list(inspect.signature(Attention.forward).parameters) == ["self", "x", "k"]
    event = "layer.attn|produces=kv:2 3"
    lines = tool.take()
    assert lines[:3] == [f"push {event}", "1 2", f"pop {event}"]
    assert lines[3:] == ["push layer.gate", "pop layer.gate"] * 2 + [
        "push layer.combine", "pop layer.combine",
    ]  # fmt: skip


def test_errors_of_the_engine_pass_and_close_the_range(tool: Recorder) -> None:
    class Odd(BaseException):
        pass

    @layer("attn", 1)
    def fail() -> None:
        raise odd

    odd = Odd()
    with pytest.raises(Odd) as caught, layer("gate", 1):
        fail()
    assert caught.value is odd
    assert tool.take() == [
        "push layer.gate 1", "push layer.attn 1", "pop layer.attn 1", "pop layer.gate 1",
    ]  # fmt: skip


def test_a_generator_is_marked_while_its_body_runs(tool: Recorder) -> None:
    @cache("store", 2)
    def blocks(first: int) -> Generator[int, str, str]:
        tool.note(f"body {(yield first)}")
        try:
            yield 2
        except KeyError as error:
            tool.note(f"caught {error}")
        return "done"

    assert inspect.isgeneratorfunction(blocks)
    running = blocks(1)
    tool.note(f"got {next(running)}")
    tool.note(f"got {running.send('sent')}")
    with pytest.raises(StopIteration) as stop:
        running.throw(KeyError("key"))
    assert stop.value.value == "done"
    piece = ["push cache.store 2", "pop cache.store 2"]
    assert tool.take() == [
        *piece, "got 1",
        piece[0], "body sent", piece[1], "got 2",
        piece[0], "caught 'key'", piece[1],
    ]  # fmt: skip


def test_a_generator_that_is_closed_sees_it(tool: Recorder) -> None:
    @cache("store", 2)
    def blocks() -> Iterator[int]:
        try:
            yield 1
        except GeneratorExit:
            tool.note("exit")
            raise
        finally:
            tool.note("finally")

    running = blocks()
    next(running)
    tool.take()
    running.close()  # type: ignore[attr-defined]
    assert tool.take() == ["push cache.store 2", "exit", "finally", "pop cache.store 2"]


def test_whole_generators_are_one_range(tool: Recorder) -> None:
    @cache("store", whole=True)
    def blocks() -> Iterator[int]:
        yield 1
        yield 2

    assert list(blocks()) == [1, 2]
    assert tool.take() == ["start cache.store", "end cache.store"]
    running = blocks()
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert tool.take() == ["start cache.store", "end cache.store"]


def test_with_in_a_suspended_body_is_put_aside(tool: Recorder) -> None:
    @iteration("model", 1)
    def body() -> Iterator[int]:
        with layer("attn", 3):
            yield 1
            tool.note(",".join(tool.here))
        yield 2

    running = body()
    next(running)
    assert tool.here == []
    next(running)
    assert tool.here == []
    assert list(running) == []
    assert tool.take() == [
        "push iteration.model 1", "push layer.attn 3", "pop layer.attn 3", "pop iteration.model 1",
        "push iteration.model 1", "push layer.attn 3", "iteration.model 1,layer.attn 3",
        "pop layer.attn 3", "pop iteration.model 1",
        "push iteration.model 1", "pop iteration.model 1",
    ]  # fmt: skip


def test_a_coroutine_is_marked_while_its_body_runs(tool: Recorder) -> None:
    @layer("attn", lambda index: index)
    async def attend(index: int) -> int:
        tool.note(f"a{index}")
        await asyncio.sleep(0)
        tool.note(f"b{index}")
        return index

    async def both() -> list[int]:
        return await asyncio.gather(attend(1), attend(2))

    assert inspect.iscoroutinefunction(attend)
    assert asyncio.run(both()) == [1, 2]
    assert tool.take() == [
        line
        for note in ("a1", "a2", "b1", "b2")
        for line in (f"push layer.attn {note[1]}", note, f"pop layer.attn {note[1]}")
    ]


def test_a_cancelled_coroutine_sees_it(tool: Recorder) -> None:
    @layer("attn", 1)
    async def attend() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            tool.note("cancelled")
            raise

    async def cancel() -> None:
        task = asyncio.create_task(attend())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(cancel())
    piece = ["push layer.attn 1", "pop layer.attn 1"]
    assert tool.take() == [*piece, piece[0], "cancelled", piece[1]]


def test_whole_coroutines_and_async_with_are_one_range(tool: Recorder) -> None:
    shared = cache("lookup", 4)

    @iteration("step", lambda number: number, whole=True)
    async def step(number: int) -> None:
        async with shared, cache("wait", number):
            await asyncio.sleep(0)
            async with shared:
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(step(1), step(2))

    asyncio.run(both())
    lines = tool.take()
    for number in (1, 2):
        assert lines.count(f"start iteration.step {number}") == 1
        assert lines.count(f"end cache.wait {number}") == 1
    assert lines.count("start cache.lookup 4") == lines.count("end cache.lookup 4") == 4
    assert not tool.running
    assert not [line for line in lines if line.startswith("push")]


def test_an_async_generator_is_marked_while_its_body_runs(tool: Recorder) -> None:
    @cache("l2_l1", 2)
    async def blocks(count: int) -> AsyncIterator[Any]:
        try:
            for number in range(count):
                await asyncio.sleep(0)
                try:
                    tool.note(f"sent {(yield number)}")
                except KeyError:
                    tool.note("caught")
                    yield "again"
        finally:
            tool.note("finally")

    async def drive() -> None:
        assert [one async for one in blocks(2)] == [0, 1]
        assert [line for line in tool.take() if line.startswith(("sent", "final"))] == [
            "sent None", "sent None", "finally",
        ]  # fmt: skip
        running: Any = blocks(3)
        assert await running.asend(None) == 0
        assert await running.asend("x") == 1
        assert await running.athrow(KeyError()) == "again"
        tool.take()
        await running.aclose()
        assert tool.take() == ["push cache.l2_l1 2", "finally", "pop cache.l2_l1 2"]
        failing: Any = blocks(3)
        await failing.asend(None)
        with pytest.raises(ValueError, match="mine"):
            await failing.athrow(ValueError("mine"))
        with pytest.raises(StopAsyncIteration):
            await failing.asend(None)

    assert inspect.isasyncgenfunction(blocks)
    asyncio.run(drive())
    tool.take()


def test_a_span_ends_once_on_any_thread(tool: Recorder) -> None:
    span = cache("l3_l2", 4).start()
    for _ in range(2):
        thread = threading.Thread(target=span.end)
        thread.start()
        thread.join()
    span.end()
    assert tool.take() == ["start cache.l3_l2 4", "end cache.l3_l2 4"]


def test_ranges_closed_in_another_order_close_by_themselves(tool: Recorder) -> None:
    first, second = layer("attn", 1), layer("gate", 1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert tool.here == ["layer.gate 1"]
    second.__exit__(None, None, None)
    assert tool.take() == [
        "push layer.attn 1", "push layer.gate 1",
        "pop layer.gate 1", "pop layer.attn 1", "push layer.gate 1",
        "pop layer.gate 1",
    ]  # fmt: skip


def test_a_range_closed_on_another_thread_is_popped_by_its_own(tool: Recorder) -> None:
    lost = layer("attn", 1)
    lost.__enter__()
    thread = threading.Thread(target=lost.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    with layer("gate", 1):
        pass
    assert tool.take() == [
        "push layer.attn 1", "push layer.gate 1", "pop layer.gate 1", "pop layer.attn 1",
    ]  # fmt: skip


def test_one_marker_serves_many_threads_and_recursion(tool: Recorder) -> None:
    marker = layer("attn", 1)

    def use(depth: int) -> None:
        with marker:
            if depth:
                use(depth - 1)
            assert len(tool.here) == 4 - depth

    threads = [threading.Thread(target=use, args=(3,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = tool.take()
    assert lines.count("push layer.attn 1") == lines.count("pop layer.attn 1") == 32


def test_what_is_off_is_not_written_and_what_is_open_is_closed(tool: Recorder) -> None:
    @layer("attn", lambda: pytest.fail("asked for while off"))
    def attend() -> int:
        return 1

    disable()
    assert attend() == 1
    with layer("attn", 1), iteration("step", 1):
        mark("cache", "lookup")
        cache("wait").start().end()
        enable()
    assert tool.take() == []
    marker = layer("gate", 1)
    span = cache("wait").start()
    with marker:
        disable()
        with marker:
            enable()
    span.end()
    disable("cache")
    with cache("wait"), layer("gate", 1):
        pass
    assert tool.take() == [
        "start cache.wait", "push layer.gate 1", "pop layer.gate 1", "end cache.wait",
        "push layer.gate 1", "pop layer.gate 1",
    ]  # fmt: skip


def test_request_phases_are_no_pushed_ranges(tool: Recorder) -> None:
    @request(lambda identity: identity).phase("frontend", tokens=lambda identity: len(identity))
    def receive(identity: str) -> str:
        with request(7).phase("decode"):
            return identity

    assert receive("cmpl") == "cmpl"
    first, *rest = tool.take()
    assert first.startswith("start request.frontend|id=cmpl,tokens=4 ")
    assert rest == ["start request.decode 7", "end request.decode 7", f"end {first[6:]}"]


def test_words_may_be_members_of_an_enum(tool: Recorder) -> None:
    class Phase(str, Enum):
        ATTN = "attn"

    disable(Level.CACHE)
    mark(Level.LAYER, Phase.ATTN, 1)
    mark(Level.CACHE, "lookup", 1)
    with layer(Phase.ATTN, 2):
        pass
    assert tool.take() == ["mark layer.attn 1", "push layer.attn 2", "pop layer.attn 2"]
