"""Registration and follower against a real server: what a router sees of its workers."""

from __future__ import annotations

from cache_index.commands import RedisClient
from cache_index.keys import index_keys
from tests.fakes.fleet import Delta, block, eventually, index, removed, stored, worker
from tests.fakes.index_fleet import (
    NAMES,
    A,
    B,
    FollowerFactory,
    WorkerFactory,
    agrees,
)


async def test_blocks_of_workers_reach_a_router_that_was_there_first(
    follow: FollowerFactory, join: WorkerFactory
) -> None:
    follower = await follow()
    a, b = await join("a"), await join("b")
    a.note(stored(1, 2, 3))
    b.note(stored(1))
    await eventually(lambda: agrees(follower, a, b))
    hits = follower.view.match(index_keys([block(1), block(2), block(3), block(4)]))
    assert hits == {A: 3, B: 1}
    a.note(removed(3))
    await eventually(lambda: follower.view.match(index_keys([block(1), block(2)])) == {A: 2, B: 1})
    await eventually(lambda: agrees(follower, a, b))


async def test_router_that_starts_later_reads_everything_before_it_is_ready(
    follow: FollowerFactory, join: WorkerFactory
) -> None:
    a = await join("a")
    a.note(stored(*range(5000)))
    await eventually(lambda: a.synced)
    follower = await follow()
    assert agrees(follower, a)
    assert follower.gaps == 0


async def test_record_says_what_the_worker_said(
    follow: FollowerFactory, join: WorkerFactory
) -> None:
    a = await join("a")
    record = (await follow()).workers[A]
    assert (record.address, record.total_blocks) == (worker("a").address, 1000)
    assert record.identity == worker("a").identity
    assert (record.epoch, record.slot, record.draining) == (a.epoch, 0, False)


async def test_flush_empties_the_view_by_a_new_epoch(
    follow: FollowerFactory, join: WorkerFactory
) -> None:
    follower, a, b = await follow(), await join("a"), await join("b")
    a.note(stored(1, 2))
    b.note(stored(1, 2))
    await eventually(lambda: agrees(follower, a, b))
    before = a.epoch
    a.note(Delta(stored=(block(9),), flushed=True))
    await eventually(lambda: a.epoch > before and agrees(follower, a, b))
    assert follower.view.blocks_of(A) == index([9])
    assert follower.view.blocks_of(B) == index([1, 2])
    assert a.registrations == 1


async def test_draining_is_seen(follow: FollowerFactory, join: WorkerFactory) -> None:
    changes: list[int] = []
    follower, a = await follow(), await join("a")
    await eventually(lambda: A in follower.workers)
    follower._on_change = lambda: changes.append(1)
    a.set_draining(True)
    await eventually(lambda: follower.workers[A].draining)
    assert changes


async def test_withdrawn_worker_is_gone_with_the_next_event(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    a = await join("a", lease_s=60.0)
    a.note(stored(1))
    follower = await follow()
    await a.withdraw()
    await eventually(lambda: not follower.workers)
    assert await client.exists(NAMES.meta(A), NAMES.blocks(A), NAMES.registry) == 0
