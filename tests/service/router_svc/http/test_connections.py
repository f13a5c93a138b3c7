"""Very many connections at a time: served or told to come back, and nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.byte_model import ByteEngine
from tests.fakes.stack import Stack, stack
from tests.fakes.wait import until

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE / 1e6


async def wave(url: str, connections: int) -> Counter[int]:
    """One request on each of `connections` new connections, all at once; statuses."""
    statuses: Counter[int] = Counter()
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:

        async def one(number: int) -> None:
            body = {"prompt": f"{number % 50} shared", "max_tokens": 4, "stream": number % 2 == 0}
            async with session.post("/v1/completions", json=body) as response:
                data = await response.read()
                statuses[response.status] += 1
                if response.status == 200 and body["stream"]:
                    assert data.endswith(b"data: [DONE]\n\n")
                if response.status == 429:
                    assert response.headers["Retry-After"]

        await asyncio.gather(*(one(number) for number in range(connections)))
    return statuses


async def all_idle(running: Stack) -> None:
    await until(
        lambda: not any(one._running or one._waiting for one in running.engines), "engines idle"
    )


async def flood(folder: Path, redis_url: str, connections: int) -> None:
    async with stack(folder, redis_url, workers=8, fake={"step_s": 0.005}) as running:
        memory = []
        for _ in range(3):
            statuses = await wave(running.url, connections)
            assert statuses == {200: connections}
            await all_idle(running)
            gc.collect()
            memory.append(resident_mb())
        assert memory[2] - memory[1] < 30, f"memory grows: {memory} MB"
        assert all(isinstance(one, ByteEngine) and not one._streams for one in running.engines)


async def test_two_hundred_connections_are_served(tmp_path: Path, valkey: str) -> None:
    await flood(tmp_path, valkey, 200)


@pytest.mark.soak
async def test_two_thousand_connections_are_served(tmp_path: Path, valkey: str) -> None:
    await flood(tmp_path, valkey, 2000)


async def test_beyond_the_limit_clients_are_told_to_come_back(tmp_path: Path, valkey: str) -> None:
    async with stack(
        tmp_path, valkey, workers=2, fake={"step_s": 0.005}, http_max_per_key=50
    ) as running:
        statuses = await wave(running.url, 300)
        assert set(statuses) == {200, 429}
        assert statuses[200] >= 50
        await all_idle(running)
        assert await wave(running.url, 20) == {200: 20}
