"""Phases of requests: they cross threads, begin again, are cut short, or never end."""

from __future__ import annotations

import threading
from uuid import UUID

import pytest

from overlapaudit_nvtx import disable, enable, request, request_ids, requests
from tests.markers.recorder import Recorder


def test_a_phase_ends_on_another_thread(tool: Recorder) -> None:
    request(17).start("prefill")
    thread = threading.Thread(target=lambda: request(17).end())
    thread.start()
    thread.join()
    assert tool.take() == ["start request.prefill 17", "end request.prefill 17"]


def test_a_phase_that_begins_again_ends_the_one_before(tool: Recorder) -> None:
    request(1).start("decode")
    request(2).start("decode")
    request(1).start("decode")
    request(1).end("decode")
    request(2).end("decode")
    assert tool.take() == [
        "start request.decode 1", "start request.decode 2",
        "end request.decode 1", "start request.decode 1",
        "end request.decode 1", "end request.decode 2",
    ]  # fmt: skip


def test_ends_without_a_start_do_nothing(tool: Recorder) -> None:
    request(1).end()
    request(1).end("decode")
    request(1).end("nonsense")
    request(1).close()
    request(1).start("queue")
    for _ in range(3):
        request(1).end()
    assert tool.take() == ["start request.queue 1", "end request.queue 1"]


def test_without_a_name_the_phase_started_last_ends(tool: Recorder) -> None:
    for phase in ("decode", "queue", "xfer"):
        request(1).start(phase)
    request(1).start("decode")  # now the last
    tool.take()
    for _ in range(4):
        request(1).end()
    assert tool.take() == ["end request.decode 1", "end request.xfer 1", "end request.queue 1"]


def test_a_request_that_is_over_ends_all_and_may_start_again(tool: Recorder) -> None:
    one = request("x")
    one.start("prefill")
    one.start("xfer")
    first = tool.take()[0].rpartition(" ")[2]
    request("x").close()
    assert tool.take() == [f"end request.{name}|id=x {first}" for name in ("prefill", "xfer")]
    one.start("queue")
    request("y").start("queue")
    one.close()
    assert [line.partition("|")[0] for line in tool.take()] == [
        "start request.queue", "start request.queue", "end request.queue",
    ]  # fmt: skip


def test_ids_that_are_no_integers_keep_their_running_number(tool: Recorder) -> None:
    for identity in ("r,1|2\n", "other", UUID(int=5), "r,1|2\n", 2**63, 2.5):
        request(identity).start("queue")
        request(identity).end()
    events = [line[6:] for line in tool.take() if line.startswith("start")]
    texts = [event.partition("|id=")[2].rpartition(" ")[0] for event in events]
    numbers = [int(event.rpartition(" ")[2]) for event in events]
    assert texts == [
        "r_1_2_", "other", str(UUID(int=5)), "r_1_2_", "9223372036854775808", "2.5",
    ]  # fmt: skip
    assert numbers[0] == numbers[3]
    assert len(set(numbers)) == 5


def test_a_phase_that_was_open_when_switched_off_is_ended(tool: Recorder) -> None:
    request(1).start("decode")
    disable("request")
    request(1).start("queue")
    request(1).end("decode")
    request(1).end()
    enable()
    assert tool.take() == ["start request.decode 1", "end request.decode 1"]


def test_requests_that_never_end_do_not_pile_up(
    tool: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_MOST_OPEN", 10)
    monkeypatch.setattr(request_ids, "_REMEMBERED", 10)
    for number in range(100):
        request(f"never {number}").start("decode")
    assert len(requests._OPEN) <= 10
    assert len(request_ids._NUMBERS) <= 10
    assert len(tool.running) == len(requests._OPEN)


def test_many_threads_start_and_end_the_same_request(tool: Recorder) -> None:
    def use() -> None:
        for _ in range(200):
            request("shared").start("decode")
            request("shared").end()

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    request("shared").close()
    assert not tool.running
    lines = tool.take()
    assert sum(line.startswith("start") for line in lines) == 800
