"""The documented rights are enough for everything a role does, and allow nothing else of note."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import NoPermissionError

from cache_index.acl import rule
from cache_index.base import RouterId, WorkerId
from cache_index.commands import close, execute
from cache_index.costs import Candidate
from cache_index.follower import Follower
from cache_index.ledger import ServiceTimes
from cache_index.ledger_client import LedgerClient
from cache_index.models import discover_models
from cache_index.redis_url import check_server, client_from_url
from cache_index.registration import Registration
from kvroute.errors import StartError
from tests.fakes.fleet import MODEL, Delta, block, eventually, stored, worker
from tests.fakes.valkey import StartServer


async def test_both_roles_can_do_all_their_work(start_valkey: StartServer) -> None:
    server = await start_valkey()
    admin = client_from_url(server.url)
    for role in ("worker", "router"):
        await execute(admin, "ACL", "SETUSER", role, *rule(role), f">{role}-secret")
    await execute(admin, "ACL", "SETUSER", "default", "off")
    path = server.directory / "redis.sock"
    worker_url, router_url = (
        f"unix://{r}@{path}?password={r}-secret" for r in ("worker", "router")
    )

    a = Registration(worker_url, worker=worker("a"), lease_s=0.3, flush_s=0.005)
    b = Registration(worker_url, worker=worker("b"), lease_s=0.3, flush_s=0.005)
    follower = Follower(router_url, MODEL, lease_s=0.3, audit_s=0.05)
    ledger = LedgerClient(router_url, MODEL, RouterId("r"), session_ttl_s=0.2)
    other = LedgerClient(router_url, MODEL, RouterId("dead"), session_ttl_s=0.2)
    await a.start()
    await b.start()
    await follower.start()
    await ledger.start()
    await other.start()
    a.note(stored(1, 2))
    a.set_draining(True)
    await eventually(lambda: follower.view.count(WorkerId("a")) == 2)
    a.note(Delta(stored=(block(3),), flushed=True))
    await eventually(lambda: follower.view.blocks_of(WorkerId("a")) == {3})
    booking = await ledger.book(100, [Candidate(a.slot, 0), Candidate(b.slot, 0)])
    await other.book(100, [Candidate(a.slot, 0)])
    assert other._task is not None
    other._task.cancel()  # Its session runs out, and the other router closes it.
    ledger.finish(booking, ServiceTimes(0, 100, 5.0, 1.0, 20.0, 3))
    await b.stop()  # Its lease runs out, and the router reaps it.
    await eventually(lambda: follower.workers.keys() == {WorkerId("a")})

    async with asyncio.timeout(10):
        while (await ledger.peek()).routers > 1:  # noqa: ASYNC110 (Redis holds it)
            await asyncio.sleep(0.02)
    client = client_from_url(router_url)
    assert await discover_models(client)
    for forbidden in (("FLUSHALL",), ("KEYS", "*"), ("GET", "other"), ("CONFIG", "GET", "*")):
        with pytest.raises(NoPermissionError):
            await execute(client, *forbidden)
    denied = client_from_url(f"unix://worker@{path}?password=wrong")
    with pytest.raises(StartError, match="refuses this user"):
        await check_server(denied, worker_url)
    await a.withdraw()
    await eventually(lambda: not follower.workers)
    for link in (a, follower, ledger, other):
        await link.stop()
    for one in (client, denied, admin):
        await close(one)
