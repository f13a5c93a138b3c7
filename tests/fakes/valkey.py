"""A real Valkey (or Redis) for tests: one shared server, emptied per test, and a factory of servers
to be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from cache_index.embedded import EmbeddedServer
from cache_index.redis_url import client_from_url

StartServer = Callable[..., Awaitable[EmbeddedServer]]


@pytest.fixture(scope="session")
def valkey_process() -> Iterator[EmbeddedServer]:
    server = EmbeddedServer()
    with asyncio.Runner() as runner:
        runner.run(server.start())
        yield server
        runner.run(server.stop())


@pytest.fixture
async def valkey(valkey_process: EmbeddedServer) -> str:
    """URL of an empty server. Functions stay loaded: losing them has tests of its own."""
    client = client_from_url(valkey_process.url)
    await client.flushall()
    await client.aclose()
    return valkey_process.url


@pytest.fixture
async def start_valkey() -> AsyncIterator[StartServer]:
    """Starts servers that the test may kill; all end with it."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*options: str, port: int = 0) -> EmbeddedServer:
            return await stack.enter_async_context(EmbeddedServer(port=port, options=options))

        yield start
