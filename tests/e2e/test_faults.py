"""Processes die and come back: kill -9 of worker and router, an empty Valkey, a client that leaves.

Real router, worker edge and control plane in processes of their own; the model is a fake whose
tokens depend on every token before them, so that a wrong answer cannot look right.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cache_index.embedded import EmbeddedServer
from kvroute.client import Client
from kvroute.errors import NotFound, Unavailable
from kvroute.v1 import router_pb2
from tests.fakes.engine import expected
from tests.fakes.processes import Fleet, fleet
from tests.fakes.wait import until

PROMPT = list(range(1, 200))
COST = {"ms_per_token": 0.2}
"""A miss costs 40 ms: what is learned of it must outweigh the noise of a busy machine."""


@asynccontextmanager
async def two_workers(
    folder: Path, server: EmbeddedServer, lease_s: float = 0.5
) -> AsyncIterator[tuple[Fleet, str]]:
    """Two fake-model workers and a router; yields the fleet and the router's address."""
    async with fleet(folder, server.url, lease_s) as found:
        router, *_ = await asyncio.gather(
            found.router(), found.worker("w1", fake=COST), found.worker("w2", fake=COST)
        )
        async with Client(router.address) as client:
            await connected(client, 2)
        yield found, router.address


async def model(client: Client) -> router_pb2.ModelState | None:
    state = await client.cluster_state()
    return state.models[0] if state.models else None


async def connected(client: Client, workers: int) -> None:
    """Until exactly `workers` workers are known and connected."""

    async def now() -> bool:
        found = await model(client)
        return (
            found is not None
            and len(found.workers) == workers
            and all(one.connected for one in found.workers)
        )

    async with asyncio.timeout(30):
        while not await now():
            await asyncio.sleep(0.02)


async def ask(client: Client, prompt: list[int], count: int = 8) -> router_pb2.Explain:
    """One request whose tokens must be right; returns its explain record."""
    generation = client.generate(token_ids=prompt, max_tokens=count)
    tokens = [token async for chunk in generation for token in chunk.token_ids]
    assert tokens == expected(prompt, count)
    assert generation.explain is not None
    return generation.explain


async def test_a_killed_idle_worker_is_gone_within_its_lease(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, two_workers(tmp_path, server) as (found, address):
        async with Client(address) as client:
            first = await ask(client, PROMPT)
            victim = next(one for one in found.services if one.name == first.worker_id)
            victim.kill()
            # Requests go on meanwhile, whoever held their prefix.
            for _ in range(5):
                assert (await ask(client, PROMPT)).worker_id != first.worker_id
            await connected(client, 1)
            assert (await ask(client, PROMPT)).delivered_hit > 0


async def test_a_worker_killed_mid_stream_is_replaced_unnoticed(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, two_workers(tmp_path, server) as (found, address):
        async with Client(address) as client:
            generation = client.generate(token_ids=PROMPT, max_tokens=400)
            tokens: list[int] = []
            killed = False
            async for chunk in generation:
                tokens += chunk.token_ids
                if not killed and len(tokens) > 20:
                    state = await model(client)
                    assert state is not None
                    busy = next(one.worker_id for one in state.workers if one.outstanding)
                    next(one for one in found.services if one.name == busy).kill()
                    killed = True
            assert killed
            assert tokens == expected(PROMPT, 400)
            assert generation.explain is not None
            assert generation.explain.retries == 1
            assert generation.usage is not None
            assert generation.usage.completion_tokens == 400


async def test_a_frozen_worker_is_replaced_unnoticed(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, fleet(tmp_path, server.url) as found:
        router, *_ = await asyncio.gather(
            found.router("router", "--silence-s", "1"), found.worker("w1"), found.worker("w2")
        )
        async with Client(router.address) as client:
            await connected(client, 2)
            generation = client.generate(token_ids=PROMPT, max_tokens=300)
            tokens: list[int] = []
            frozen = None
            async for chunk in generation:
                tokens += chunk.token_ids
                if frozen is None and len(tokens) > 20:
                    state = await model(client)
                    assert state is not None
                    busy = next(one.worker_id for one in state.workers if one.outstanding)
                    frozen = next(one for one in found.services if one.name == busy)
                    frozen.signal(signal.SIGSTOP)
            assert frozen is not None
            assert tokens == expected(PROMPT, 300)
            # Awake again it is fenced, registers anew, and serves.
            frozen.signal(signal.SIGCONT)
            await connected(client, 2)


async def test_a_new_router_decides_first_on_a_full_view(tmp_path: Path) -> None:
    # A lease that no stall of this machine outlasts: the drill is about views, not leases.
    async with EmbeddedServer() as server, two_workers(tmp_path, server, 10.0) as (found, address):
        async with Client(address) as client:
            warm = await ask(client, PROMPT)
            assert await client.explain(warm.request_id) == warm
        next(one for one in found.services if one.name == "router").kill()
        second = await found.router("router-2")
        async with Client(second.address) as client:
            first = await ask(client, PROMPT)
            assert first.worker_id == warm.worker_id
            assert first.chosen_hit == first.delivered_hit == first.best_hit == 192
            state = await model(client)
            assert state is not None
            assert state.view_complete
            assert len(state.workers) == 2
            with pytest.raises(NotFound, match=warm.router_id):
                await client.explain(warm.request_id)


async def test_an_empty_valkey_heals_while_requests_go_on(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, two_workers(tmp_path, server) as (_, address):
        async with Client(address) as client:
            warm = await ask(client, PROMPT)
            await server.kill()
            outcomes = [await outcome(client) for _ in range(5)]
            await server.start()
            outcomes += [await outcome(client) for _ in range(5)]
            assert set(outcomes) <= {"right", "unavailable"}

            async def healed() -> bool:
                state = await model(client)
                return (
                    state is not None
                    and not state.degraded
                    and len(state.workers) == 2
                    and all(one.connected for one in state.workers)
                    and any(one.cached_blocks for one in state.workers)
                )

            async with asyncio.timeout(30):
                while not await healed():
                    await asyncio.sleep(0.05)
            again = await ask(client, PROMPT)
            assert again.delivered_hit == again.chosen_hit
            assert again.best_hit >= warm.chosen_hit


async def outcome(client: Client) -> str:
    """One request while Redis is away: right, or a clear UNAVAILABLE; anything else fails."""
    try:
        await ask(client, PROMPT)
    except Unavailable as error:
        assert str(error)
        return "unavailable"
    return "right"


async def test_a_client_that_leaves_stops_the_worker_and_frees_its_booking(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, two_workers(tmp_path, server) as (_, address):
        async with Client(address) as client:
            async with client.generate(token_ids=PROMPT, max_tokens=5000) as generation:
                async for chunk in generation:
                    if chunk.token_ids:
                        break

            async def idle() -> bool:
                state = await model(client)
                if state is None or not any(one.cached_blocks for one in state.workers):
                    return False
                return all(one.outstanding == 0 and one.queue_ms == 0 for one in state.workers)

            async with asyncio.timeout(30):
                while not await idle():
                    await asyncio.sleep(0.02)
            # The prefix it computed stays, and the next one is served at once.
            assert (await ask(client, PROMPT)).delivered_hit == 192


async def test_a_drained_worker_finishes_its_streams_and_leaves(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, two_workers(tmp_path, server) as (found, address):
        async with Client(address) as client:
            running = [asyncio.create_task(ask(client, [i, *PROMPT], 150)) for i in range(1, 9)]
            await until(lambda: all(not task.done() for task in running), "streams run")
            victim = next(one for one in found.services if one.name == "w1")
            victim.process.terminate()
            await asyncio.gather(*running)
            assert await victim.process.wait() == 0
            await connected(client, 1)
            assert (await ask(client, PROMPT)).worker_id == "w2"
