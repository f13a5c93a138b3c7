"""Router link and worker edge over real gRPC: handshake, frames, cancellation, loss."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cache_index.fleet import WorkerRecord
from kvroute.errors import InvalidArgument, KvrouteError, Unavailable
from kvroute.tokens import pack_tokens, unpack_tokens
from kvroute.v1 import common_pb2, router_pb2, worker_pb2
from router_svc.link import Link
from router_svc.stream import RemoteStream
from tests.fakes.engine import expected
from tests.fakes.wait import until
from tests.fakes.worker import IDENTITY, edge_only


@asynccontextmanager
async def linked(record: WorkerRecord) -> AsyncIterator[Link]:
    link = Link(record, "r1", lambda: None)
    link.start()
    try:
        async with asyncio.timeout(30):
            await link.settled.wait()
        yield link
    finally:
        await link.stop()


def submit(prompt: list[int], max_tokens: int, resumed: int = 0) -> worker_pb2.Submit:
    return worker_pb2.Submit(
        request_id="x",
        token_ids=pack_tokens(prompt),
        sampling=common_pb2.SamplingParams(max_tokens=max_tokens),
        resumed_tokens=resumed,
    )


async def collect(stream: RemoteStream) -> tuple[list[int], worker_pb2.End]:
    tokens: list[int] = []
    while True:
        part = await stream.next()
        for output in router_pb2.GenerateResponse.FromString(part.response).outputs:
            tokens += unpack_tokens(output.token_ids)
        if part.end is not None:
            return tokens, part.end


def new_stream() -> RemoteStream:
    return RemoteStream(1 << 20, lambda: None)


async def test_many_requests_share_one_session() -> None:
    async with edge_only() as worker, linked(worker.record) as link:
        prompts = [[i, 2, 3] * 8 for i in range(1, 9)]
        streams = [new_stream() for _ in prompts]
        for prompt, stream in zip(prompts, streams, strict=True):
            link.open(submit(prompt, 10), stream)
        for prompt, stream in zip(prompts, streams, strict=True):
            tokens, end = await collect(stream)
            assert tokens == expected(prompt, 10)
            assert end.usage.completion_tokens == 10
        assert link.in_flight == 0
        assert worker.hub.open_requests == 0


async def test_a_second_request_reports_its_hit_at_admission() -> None:
    async with edge_only() as worker, linked(worker.record) as link:
        prompt = list(range(1, 50))
        for hit in (0, 48):
            stream = new_stream()
            link.open(submit(prompt, 2), stream)
            await collect(stream)
            assert stream.admission is not None
            assert stream.admission.cached_tokens == hit
        assert sum(len(delta.stored) for delta in worker.deltas) == 3


async def test_closing_a_stream_stops_the_worker() -> None:
    async with edge_only() as worker, linked(worker.record) as link:
        stream = new_stream()
        stream_id = link.open(submit([1, 2, 3], 100_000), stream)
        await stream.next()
        link.close(stream_id)
        await until(lambda: worker.hub.open_requests == 0, "the worker drops the request")
        assert worker.engine.stats().running == 0


async def test_a_lost_router_frees_its_requests() -> None:
    async with edge_only() as worker:
        async with linked(worker.record) as link:
            stream = new_stream()
            link.open(submit([1, 2, 3], 100_000), stream)
            await stream.next()
        await until(lambda: worker.hub.open_requests == 0, "the worker drops the request")


async def test_a_lost_worker_fails_open_streams_and_is_found_again() -> None:
    async with edge_only() as worker:
        address = worker.record.address
        link = Link(worker.record, "r1", lambda: None)
        link.start()
        await link.settled.wait()
        stream = new_stream()
        link.open(submit([1, 2, 3], 100_000), stream)
        await stream.next()
    try:
        with pytest.raises(Unavailable, match="lost worker w1"):
            while True:
                await stream.next()
        assert not link.connected
        with pytest.raises(Unavailable, match="not reachable"):
            link.open(submit([1], 1), new_stream())
        async with edge_only(listen=address):
            await until(lambda: link.connected, "the link connects again")
    finally:
        await link.stop()


async def test_a_resumed_stream_goes_on_where_it_was() -> None:
    async with edge_only() as worker, linked(worker.record) as link:
        prompt = [5, 6, 7]
        whole = expected(prompt, 12)
        stream = new_stream()
        link.open(submit(prompt + whole[:5], 12, resumed=5), stream)
        tokens, end = await collect(stream)
        assert tokens == whole[5:]
        assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (3, 12)


async def test_tokenize_text_chat_and_errors() -> None:
    async with edge_only() as worker, linked(worker.record) as link:
        words = await link.tokenize(worker_pb2.Tokenize(text="3 4 5"))
        assert unpack_tokens(words.token_ids) == [3, 4, 5]
        chat = router_pb2.Chat(messages=[router_pb2.ChatMessage(role="user", content="9 8")])
        templated = await link.tokenize(worker_pb2.Tokenize(chat=chat))
        assert unpack_tokens(templated.token_ids) == [1, 9, 8]
        with pytest.raises(KvrouteError, match="tokenizer failed"):
            await link.tokenize(worker_pb2.Tokenize(text="not a number"))


async def test_an_identity_that_differs_is_refused_with_the_field() -> None:
    async with edge_only() as worker:
        other = dataclasses.replace(
            worker.record, identity=dataclasses.replace(IDENTITY, block_size=32)
        )
        async with linked(other) as link:
            await until(lambda: link.refused is not None, "the worker refuses")
            assert not link.connected
            assert "block_size" in str(link.refused)


async def test_draining_is_announced_and_new_requests_are_refused() -> None:
    async with edge_only() as worker, linked(worker.record) as link:
        worker.hub.draining = True
        worker.edge.announce_draining()
        await until(lambda: link.draining, "the link hears of it")
        stream = new_stream()
        link.open(submit([1], 1), stream)
        part = await stream.next()
        assert part.end is not None
        assert part.end.code == Unavailable.code.value[0]
        assert "draining" in part.end.message


async def test_an_unknown_adapter_fails_the_request_alone() -> None:
    async with edge_only() as worker, linked(worker.record) as link:
        request = submit([1], 1)
        request.adapter = "poet"
        stream = new_stream()
        link.open(request, stream)
        part = await stream.next()
        assert part.end is not None
        assert part.end.detail.field == "adapter"
        assert InvalidArgument.code.value[0] != part.end.code
