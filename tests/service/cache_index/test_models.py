"""Names of models come with their first worker and go with their last."""

from __future__ import annotations

from cache_index.commands import RedisClient, execute
from cache_index.models import discover_models, forget_if_empty
from cache_index.names import MODELS
from tests.fakes.fleet import MODEL, eventually
from tests.fakes.index_fleet import NAMES, FollowerFactory, WorkerFactory


async def until_listed(client: RedisClient, listed: bool) -> None:
    for _ in range(5000):  # Each is a round trip.
        if (MODEL in await discover_models(client)) is listed:
            return
    raise AssertionError(f"{MODEL} is {'not ' * listed}listed")


async def test_name_goes_with_the_last_worker_that_withdraws(
    join: WorkerFactory, client: RedisClient
) -> None:
    a, b = await join("a"), await join("b")
    await a.withdraw()
    assert MODEL in await discover_models(client)
    await b.withdraw()
    assert await discover_models(client) == {}


async def test_name_goes_with_the_last_worker_that_is_reaped(
    join: WorkerFactory, follow: FollowerFactory, client: RedisClient
) -> None:
    follower, a = await follow(), await join("a", lease_s=0.2)
    await eventually(lambda: follower.workers)
    await a.stop()
    await eventually(lambda: not follower.workers)
    await until_listed(client, False)


async def test_name_of_another_key_scheme_stays(join: WorkerFactory, client: RedisClient) -> None:
    a = await join("a")
    await execute(client, "HSET", MODELS, MODEL, "of-newer-workers")
    await a.withdraw()
    assert await discover_models(client) == {MODEL: "of-newer-workers"}


async def test_lost_name_is_said_again_with_the_next_beat(
    join: WorkerFactory, client: RedisClient
) -> None:
    await join("a", lease_s=0.2)
    await execute(client, "DEL", MODELS)
    await until_listed(client, True)


async def test_nothing_is_forgotten_while_a_worker_is_registered(
    join: WorkerFactory, client: RedisClient
) -> None:
    await join("a")
    assert not await forget_if_empty(client, NAMES, MODEL)
    assert MODEL in await discover_models(client)
