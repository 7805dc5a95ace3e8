"""Streams that one engine (OA202) or the default stream (OA504) keeps apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support import audit_of, codes, finding
from tests.tracebuilder import ApiCall, Copy, EventRecord, Kernel, Stream, Sync

US = 1_000


def launch(at_us: float, name: str = "cudaLaunchKernel_v7000") -> ApiCall:
    """Give a call that takes 2 µs."""
    return ApiCall(name, round(at_us * US), round(at_us * US) + 2 * US)


def kernel(launched_us: float, start_us: float, end_us: float, stream: int) -> Kernel:
    start, end = round(start_us * US), round(end_us * US)
    return Kernel(start, end, "gemm", stream=stream, launch=launch(launched_us))


def copy(
    launched_us: float, start_us: float, end_us: float, stream: int, direction: Any = "h2d"
) -> Copy:
    start, end = round(start_us * US), round(end_us * US)
    call = launch(launched_us, "cudaMemcpyAsync_v3020")
    return Copy(start, end, direction, stream=stream, launch=call)


# --- OA202: one engine for each direction ---

# The device works from 10 µs to 1 ms; 200 µs to 300 µs beside the copies.
FRAME = [kernel(5, 10, 20, 7), kernel(6, 200, 300, 7), kernel(990, 995, 1_000, 7)]
LARGE = copy(50, 100, 600, 8)
SMALL = copy(150, 601, 611, 9)


def queued(*copies: Copy, **content: Any) -> list[dict[str, Any]]:
    document = audit_of(kernels=FRAME, copies=list(copies), **content)
    return [one for one in document["findings"] if one["code"] == "OA202"]


def test_a_small_copy_queues_behind_a_large_one_of_another_stream() -> None:
    (found,) = queued(LARGE, SMALL)
    # Ready when its call had returned at 152 µs; 100 µs of the queue lay beside a kernel.
    assert found["cost_ns"] == (600 - 152 - 100) * US
    assert found["evidence"] == {
        "direction": "h2d",
        "copies": 1,
        "queued_ns": 448 * US,
        "longest_ns": 448 * US,
        "behind_streams": [8],
        "cost_is": "an upper bound: the time in the queue in which no kernel ran",
    }
    assert (found["where"]["stream"], found["confidence"]) == (9, "inferred")
    assert (found["where"]["start_ns"], found["where"]["end_ns"]) == (152 * US, 601 * US)


@pytest.mark.parametrize(
    ("small", "why"),
    [
        (copy(150, 601, 611, 8), "its own stream was busy"),
        (copy(150, 601, 611, 9, "d2h"), "the other direction has an engine of its own"),
        (copy(150, 605.001, 615, 9), "it did not start when the engine was free"),
        (copy(578.001, 601, 611, 9), "it was ready less than 20 µs before"),
        (copy(150, 300, 310, 9), "it ran beside the large one"),
    ],
)
def test_no_queue(small: Copy, why: str) -> None:
    assert queued(LARGE, small) == [], why


def test_a_copy_is_ready_20_us_before_its_engine() -> None:
    (found,) = queued(LARGE, copy(578, 601, 611, 9))
    assert found["cost_ns"] == 20 * US


def test_what_waits_for_an_event_does_not_queue_until_then() -> None:
    # The small copy's stream waits for a kernel that ends at 560 µs.
    kernels = [*FRAME, kernel(60, 400, 560, 10)]
    content: dict[str, Any] = {
        "event_records": [EventRecord(70 * US, 71 * US, event_id=3, event_sync_id=1, stream=10)],
        "syncs": [Sync(80 * US, 81 * US, "stream_wait", event_id=3, event_sync_id=1, stream=9)],
    }
    document = audit_of(kernels=kernels, copies=[LARGE, SMALL], **content)
    assert finding(document, "OA202")["evidence"]["queued_ns"] == 40 * US


def test_time_beside_kernels_costs_nothing() -> None:
    document = audit_of(kernels=[*FRAME, kernel(20, 150, 610, 7)], copies=[LARGE, SMALL])
    assert "OA202" not in codes(document)


# --- OA504: the default stream is a barrier ---

STREAMS = [Stream(7, "null"), Stream(13, "blocking")]
FORWARD = kernel(10, 20, 520, 13)
ON_DEFAULT = kernel(30, 522, 622, 7)
NEXT = kernel(40, 623, 673, 13)
LATER = kernel(900, 905, 1_000, 13)


def held(*kernels: Kernel, streams: Any = STREAMS) -> dict[str, Any]:
    return audit_of(kernels=[*kernels, LATER], streams=streams)


def test_e7_work_on_the_default_stream_holds_up_another() -> None:
    """sglang#16438: the scheduler's kernels on the default stream delay the forward stream."""
    document = held(FORWARD, ON_DEFAULT, NEXT)
    found = finding(document, "OA504")
    # It waited from 32 µs to 520 µs, 100 µs of which it could have spent beside the forward; what
    # came next from 520 µs to 622 µs, of which its own 50 µs.
    assert found["evidence"] == {
        "times": 2,
        "delayed_ns": (488 + 102) * US,
        "default_stream": 7,
        "streams": [13],
        "streams_known_to_block": True,
        "cost_is": "an upper bound: the smaller of both, if neither needs the other",
    }
    assert (found["cost_ns"], found["confidence"]) == ((100 + 50) * US, "proven")
    (site,) = [one for one in document["hidden_syncs"] if one["code"] == "OA504"]
    assert (site["count"], site["gpu_idle_ns"], site["host_wait_ns"]) == (2, 0, 0)


def test_streams_of_the_other_kind_take_no_part() -> None:
    streams = [Stream(7, "null"), Stream(13, "non_blocking")]
    assert "OA504" not in codes(held(FORWARD, ON_DEFAULT, NEXT, streams=streams))


def test_of_streams_of_unknown_kind_it_is_inferred() -> None:
    streams = [Stream(7, "null"), Stream(13, "unknown")]
    assert finding(held(FORWARD, ON_DEFAULT, streams=streams), "OA504")["confidence"] == "inferred"
    # One that ran beside the default stream is not of the kind that waits.
    beside = kernel(35, 560, 700, 13)
    assert "OA504" not in codes(held(FORWARD, ON_DEFAULT, beside, streams=streams))


@pytest.mark.parametrize(
    ("on_default", "found"),
    [
        (kernel(30, 530, 630, 7), True),
        (kernel(30, 530.001, 630, 7), False),  # something else held it up
        (kernel(513, 522, 622, 7), True),
        (kernel(513.001, 522, 622, 7), False),  # launched less than 5 µs before
        (kernel(9, 522, 622, 7), False),  # issued before the forward: no barrier for it
    ],
)
def test_when_a_barrier_binds(on_default: Kernel, found: bool) -> None:
    assert ("OA504" in codes(held(FORWARD, on_default))) is found


def test_other_contexts_have_barriers_of_their_own() -> None:
    elsewhere = replace(ON_DEFAULT, context=2)
    assert "OA504" not in codes(held(FORWARD, elsewhere))
