"""Fixtures of the index protocol: a client, and factories whose products end with the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from cache_index.commands import RedisClient
from cache_index.follower import Follower
from cache_index.redis_url import client_from_url
from cache_index.registration import Registration
from tests.fakes.fleet import MODEL, worker
from tests.fakes.index_fleet import AUDIT_S, LEASE_S, FollowerFactory, WorkerFactory


@pytest.fixture
async def client(valkey: str) -> AsyncIterator[RedisClient]:
    client = client_from_url(valkey)
    yield client
    await client.aclose()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def follow(valkey: str, stack: AsyncExitStack) -> FollowerFactory:
    async def make() -> Follower:
        follower = Follower(valkey, MODEL, lease_s=LEASE_S, audit_s=AUDIT_S)
        await follower.start()
        stack.push_async_callback(follower.stop)
        await follower.ready.wait()
        return follower

    return make


@pytest.fixture
def join(valkey: str, stack: AsyncExitStack) -> WorkerFactory:
    async def make(name: str, lease_s: float = LEASE_S, **changes: object) -> Registration:
        registration = Registration(
            valkey, worker=worker(name, **changes), lease_s=lease_s, flush_s=0.005
        )
        stack.push_async_callback(registration.stop)
        await registration.start()
        return registration

    return make
