"""Tasks that take turns on a thread: each note belongs to the range of the task that made it."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from overlapaudit_nvtx import enable, layer, mech, switches, thread_stack
from tests.markers.recorder import Recorder

# A task is a list of what it does: suspend itself (so many rounds), or work in a range of its own.
TASKS = st.lists(
    st.lists(st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=3)), max_size=5),
    min_size=1,
    max_size=5,
)


@given(TASKS, st.lists(st.integers(0, 12), max_size=3))
def test_work_counts_for_its_own_task(
    tasks: list[list[int | list[int]]], cancelled: list[int]
) -> None:
    tool = Recorder()
    switches.use_tool(tool)
    enable()

    @layer("attn", lambda number, doings: number)
    async def task(number: int, doings: list[int | list[int]]) -> int:
        for place, doing in enumerate(doings):
            if isinstance(doing, int):
                for _ in range(doing):
                    await asyncio.sleep(0)
                assert tool.here == [f"layer.attn {number}"]
                continue
            with mech("tbo.a", place):
                for rounds in doing:
                    for _ in range(rounds):
                        await asyncio.sleep(0)
                    assert tool.here == [f"layer.attn {number}", f"mech.tbo.a {place}"]
        return number

    async def run() -> list[int | BaseException]:
        running = [asyncio.create_task(task(*one)) for one in enumerate(tasks)]
        for rounds in cancelled:
            await asyncio.sleep(0)
            running[rounds % len(running)].cancel()
        return await asyncio.gather(*running, return_exceptions=True)

    results = asyncio.run(run())
    switches.use_tool(None)
    for number, result in enumerate(results):
        assert result == number or isinstance(result, asyncio.CancelledError)
    assert tool.errors == []
    assert tool.here == []
    assert thread_stack._THREADS.opened == []


@given(st.permutations([*range(4)] * 2))
def test_ranges_that_cross_are_each_open_from_enter_to_exit(turns: list[int]) -> None:
    """As a plain `with` does in bodies that take turns."""
    tool = Recorder()
    switches.use_tool(tool)
    enable()
    markers = [layer("attn", index) for index in range(4)]
    opened: list[int] = []
    for turn in turns:
        if turn in opened:
            markers[turn].__exit__(None, None, None)
            opened.remove(turn)
        else:
            markers[turn].__enter__()
            opened.append(turn)
        assert tool.here == [f"layer.attn {index}" for index in opened]
    switches.use_tool(None)
    counts = Counter(line.partition(" ")[0] for line in tool.take())
    assert counts["push"] == counts["pop"]
    assert tool.errors == []
