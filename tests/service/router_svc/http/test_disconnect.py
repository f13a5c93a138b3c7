"""A client that leaves stops the worker, before its first token and after."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.byte_model import ByteEngine
from tests.fakes.stack import Stack, stack
from tests.fakes.wait import until


def idle(running: Stack) -> bool:
    return not any(engine._running or engine._waiting for engine in running.engines)


def generated(running: Stack) -> int:
    return sum(engine.generated for engine in running.engines if isinstance(engine, ByteEngine))


async def test_leaving_a_stream_stops_the_worker(tmp_path: Path, valkey: str) -> None:
    async with stack(tmp_path, valkey) as running, aiohttp.ClientSession(running.url) as session:
        body = {"prompt": "x", "max_tokens": 8000, "stream": True, "n": 2}
        response = await session.post("/v1/completions", json=body)
        await response.content.readline()
        response.close()
        await until(lambda: idle(running), "the workers are idle")
        assert generated(running) < 8000


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_during_prefill_stops_the_worker(
    tmp_path: Path, valkey: str, stream: bool
) -> None:
    async with (
        stack(tmp_path, valkey, fake={"ms_per_token": 1.0}) as running,
        aiohttp.ClientSession(running.url) as session,
    ):
        body = {"prompt": "x" * 500, "max_tokens": 4000, "stream": stream}
        task = asyncio.create_task(session.post("/v1/completions", json=body))
        await until(lambda: sum(one.steps for one in running.engines), "prefill has begun")
        task.cancel()
        await until(lambda: idle(running), "the workers are idle")
        assert generated(running) < 100
