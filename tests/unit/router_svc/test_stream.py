"""A remote stream joins what has come, bounds what waits, and reports failures after what came
before.
"""

from __future__ import annotations

import asyncio

import pytest

from kvroute.errors import Overloaded, Unavailable
from kvroute.v1 import router_pb2, worker_pb2
from router_svc.stream import RemoteStream


def part(text: str) -> bytes:
    return router_pb2.GenerateResponse(
        outputs=[router_pb2.Output(text=text, token_ids=b"\1\0\0\0")]
    ).SerializeToString()


def chunk(text: str, *, end: bool = False) -> worker_pb2.Chunk:
    message = worker_pb2.Chunk(stream_id=1, response=part(text))
    if end:
        message.end.finish_reason = 1
    return message


async def test_joined_parts_are_one_valid_part() -> None:
    stream = RemoteStream(1000, lambda: None)
    for text in ("a", "b", "c"):
        stream.feed(chunk(text))
    joined = await stream.next()
    outputs = router_pb2.GenerateResponse.FromString(joined.response).outputs
    assert [output.text for output in outputs] == ["a", "b", "c"]
    assert joined.end is None


async def test_the_first_bytes_are_told_once_and_at_once() -> None:
    calls: list[int] = []
    stream = RemoteStream(1000, lambda: calls.append(1))
    stream.feed(worker_pb2.Chunk(stream_id=1, admission=worker_pb2.Admission(cached_tokens=16)))
    assert not calls
    assert stream.admission is not None
    stream.feed(chunk("a"))
    stream.feed(chunk("b"))
    assert calls == [1]


async def test_a_reader_waits_for_the_next_part() -> None:
    stream = RemoteStream(1000, lambda: None)
    waiting = asyncio.create_task(stream.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    stream.feed(chunk("late", end=True))
    assert (await waiting).end is not None


async def test_what_came_before_a_failure_is_read_first() -> None:
    stream = RemoteStream(1000, lambda: None)
    stream.feed(chunk("a"))
    stream.fail(Unavailable("lost"))
    stream.fail(Unavailable("second"))
    assert b"a" in (await stream.next()).response
    with pytest.raises(Unavailable, match="lost"):
        await stream.next()


async def test_a_slow_reader_fails_instead_of_filling_memory() -> None:
    stream = RemoteStream(100, lambda: None)
    for _ in range(20):
        stream.feed(chunk("0123456789"))
    await stream.next()
    with pytest.raises(Overloaded, match="unread"):
        await stream.next()
