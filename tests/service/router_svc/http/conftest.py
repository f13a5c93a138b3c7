"""One running stack for all tests of a module that only look at answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cache_index.embedded import EmbeddedServer
from cache_index.redis_url import client_from_url
from tests.fakes.stack import Stack, stack

ADMIN = "let-me-flush"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    tmp_path_factory: pytest.TempPathFactory, valkey_process: EmbeddedServer
) -> AsyncIterator[Stack]:
    """Two workers with byte models, and their router; on the module's loop."""
    client = client_from_url(valkey_process.url)
    await client.flushall()
    await client.aclose()
    folder = tmp_path_factory.mktemp("shared")
    async with stack(folder, valkey_process.url, http_admin_token=ADMIN) as found:
        yield found
