"""The same protocol over a Cluster of three primaries, and through a failover under Sentinel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from redis.crc import key_slot

from cache_index import functions
from cache_index.base import RouterId, WorkerId
from cache_index.commands import close, execute
from cache_index.costs import Candidate
from cache_index.follower import Follower
from cache_index.ledger import Booking
from cache_index.ledger_client import LedgerClient
from cache_index.models import discover_models
from cache_index.names import MODELS, Names
from cache_index.redis_url import check_server, client_from_url
from cache_index.registration import Registration
from kvroute.errors import Unavailable
from tests.fakes.fleet import MODEL, eventually, removed, stored, worker
from tests.fakes.topology import Cluster, cluster, supervised

LEASE_S, AUDIT_S = 0.5, 0.1
NAMES = Names.of(MODEL)


class Fleet:
    """One worker, one router, on one URL."""

    def __init__(self, url: str) -> None:
        self.a = Registration(url, worker=worker("a"), lease_s=LEASE_S, flush_s=0.005)
        self.follower = Follower(url, MODEL, lease_s=LEASE_S, audit_s=AUDIT_S)
        self.ledger = LedgerClient(url, MODEL, RouterId("r"), session_ttl_s=0.5, seed=1)

    async def __aenter__(self) -> Fleet:
        async with AsyncExitStack() as stack:
            await self.a.start()
            stack.push_async_callback(self.a.stop)
            await self.follower.start()
            stack.push_async_callback(self.follower.stop)
            await self.ledger.start()
            stack.push_async_callback(self.ledger.stop)
            await self.follower.ready.wait()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def agrees(self) -> bool:
        name = WorkerId("a")
        known = self.follower.workers.get(name)
        self.follower.check()
        return (
            self.a.synced
            and known is not None
            and known.epoch == self.a.epoch
            and self.follower.view.blocks_of(name) == set(self.a._publisher.truth)
        )

    async def book(self) -> Booking:
        async with asyncio.timeout(20):
            while True:
                try:
                    return await self.ledger.book(1000, [Candidate(self.a.slot, 500)])
                except Unavailable:
                    await asyncio.sleep(0.02)

    async def until_zero(self) -> None:
        async with asyncio.timeout(20):
            while True:
                try:
                    self.ledger._peeked_at = float("-inf")
                    loads = (await self.ledger.peek()).slots.values()
                    if not any(s.queue_us or s.outstanding or s.tokens or s.blocks for s in loads):
                        return
                except Unavailable:
                    pass
                await asyncio.sleep(0.02)

    async def works(self, first: int) -> None:
        """Events reach the view; bookings come and go."""
        self.a.note(stored(*range(first, first + 50)))
        self.a.note(removed(first + 3))
        await eventually(self.agrees, 20)
        booking = await self.book()
        assert booking.epoch == self.a.epoch
        self.ledger.finish(booking)
        await self.until_zero()


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        yield found


async def test_cluster_serves_index_and_ledger_and_loads_functions_on_every_primary(
    three: Cluster,
) -> None:
    client = client_from_url(three.url)
    await check_server(client, three.url)
    async with Fleet(three.url) as fleet:
        await fleet.works(100)
        assert await discover_models(client) == {MODEL: NAMES.tag}
        await functions.load(client)
        for node in three.nodes:
            assert len(await execute(node.client, "FUNCTION", "LIST")) == 2
        owner = await three.owner(key_slot(NAMES.events.encode()))
        await execute(owner.client, "FUNCTION", "FLUSH")
        await fleet.works(200)
        await execute(client, "DEL", MODELS)  # As if its slot had been lost alone.
        async with asyncio.timeout(20):
            while MODEL not in await discover_models(client):
                pass
        await fleet.a.withdraw()
        assert await discover_models(client) == {}
    await close(client)


async def test_slot_that_moves_to_another_primary_is_followed(three: Cluster) -> None:
    slot = key_slot(NAMES.events.encode())
    async with Fleet(three.url) as fleet:
        await fleet.works(100)
        held = await fleet.book()
        await functions.load(fleet.a._client)
        source = await three.owner(slot)
        target = next(node for node in three.nodes if node is not source)
        source_id = (await execute(source.client, "CLUSTER", "MYID")).decode()
        target_id = (await execute(target.client, "CLUSTER", "MYID")).decode()
        await execute(target.client, "CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        await execute(source.client, "CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        while keys := await execute(source.client, "CLUSTER", "GETKEYSINSLOT", slot, 100):
            move = ("127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            await execute(source.client, "MIGRATE", *move)
        for node in (target, source):
            await execute(node.client, "CLUSTER", "SETSLOT", slot, "NODE", target_id)
        await fleet.works(300)
        fleet.ledger.finish(held)
        await fleet.until_zero()


async def test_failover_to_a_stale_replica_under_sentinel_heals(tmp_path: Path) -> None:
    async with supervised(tmp_path) as found, Fleet(found.url) as fleet:
        await fleet.works(100)
        held = await fleet.book()
        await found.make_replica_stale()
        await fleet.works(200)
        found.primary.process.kill()
        await fleet.works(300)
        fleet.ledger.finish(held)
        await fleet.until_zero()
        assert (await execute(found.replica.client, "ROLE"))[0] == b"master"
