"""Registration and follower against a real server: every way to miss or lose something."""

from __future__ import annotations

import asyncio
import struct

import pytest

from cache_index import functions, tasks
from cache_index.base import Epoch
from cache_index.commands import RedisClient, execute, get, hash_all
from cache_index.follower import Follower
from cache_index.index_calls import IndexCalls
from cache_index.keys import index_keys
from cache_index.models import discover_models
from cache_index.publisher import Batch
from cache_index.registration import Registration
from kvroute.errors import Mismatch
from tests.fakes.fleet import MODEL, block, eventually, stored
from tests.fakes.index_fleet import (
    NAMES,
    A,
    FollowerFactory,
    WorkerFactory,
    agrees,
)


async def test_crashed_worker_is_gone_after_its_lease_and_leaves_no_key(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a, b = await follow(), await join("a"), await join("b")
    a.note(stored(1))
    await eventually(lambda: agrees(follower, a, b))
    await a.stop()
    await eventually(lambda: agrees(follower, b))
    await eventually(lambda: b.synced)
    assert await client.exists(NAMES.meta(A), NAMES.blocks(A)) == 0
    assert A.encode() not in await hash_all(client, NAMES.registry)


async def test_mismatch_is_refused_naming_field_and_both_values(join: WorkerFactory) -> None:
    await join("a")
    with pytest.raises(Mismatch, match=r"block_size is '32' here and '16' in worker a") as caught:
        await join("b", block_size=32)
    assert (caught.value.field, caught.value.value, caught.value.limit) == (
        "block_size",
        "32",
        "16",
    )


async def test_dead_fleet_does_not_keep_a_new_one_out(join: WorkerFactory) -> None:
    a = await join("a", lease_s=0.05)
    await a.stop()
    b: Registration | None = None
    for _ in range(200):  # Until the lease is over; no router is there to reap.
        try:
            b = await join("b", block_size=32)
            break
        except Mismatch:
            continue
    assert b is not None and b.slot == 0


async def test_restarted_worker_takes_over_and_its_zombie_is_fenced(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, old = await follow(), await join("a")
    old.note(stored(1, 2))
    await eventually(lambda: agrees(follower, old))
    await old._cancel()  # Paused: it knows nothing of its successor.
    new = await join("a")
    new.note(stored(2, 3))
    calls = IndexCalls(NAMES)
    zombie = Batch(old._publisher.seq + 1, (index_keys([block(7)])[0],), (), 1, 7)
    reply = await functions.call(client, calls.publish(A, old.epoch, zombie, 500))
    assert reply == b"FENCED"
    await eventually(lambda: agrees(follower, new))
    assert new.slot == old.slot


async def test_lost_reply_has_no_effect_twice(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a = await follow(), await join("a")
    await a._cancel()
    a.note(stored(1))
    batch = a._publisher.next_batch()
    assert batch is not None
    call = IndexCalls(NAMES).publish(A, a.epoch, batch, 500)
    assert await functions.call(client, call) == b"OK"
    assert await functions.call(client, call) == b"DUP"
    await a._publish()
    await eventually(lambda: agrees(follower, a))


async def test_trimmed_stream_is_a_gap_that_heals(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a = await follow(), await join("a")
    a.note(stored(1))
    await eventually(lambda: agrees(follower, a))
    await follower_paused(follower)
    for number in range(2, 30):
        a.note(stored(number))
        await eventually(lambda: a.synced)
    await execute(client, "XTRIM", NAMES.events, "MAXLEN", 2)
    await follower.start()
    await eventually(lambda: agrees(follower, a))
    assert follower.gaps == 1 and follower.bootstraps == 1


async def follower_paused(follower: Follower) -> None:
    await tasks.end(follower._task)


async def test_stream_cut_empty_is_noticed_without_any_event(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a = await follow(), await join("a")
    await eventually(lambda: agrees(follower, a))
    await follower_paused(follower)
    a.note(stored(1))
    await eventually(lambda: a.synced)
    await execute(client, "XTRIM", NAMES.events, "MAXLEN", 0)
    await follower.start()
    await eventually(lambda: agrees(follower, a))


async def test_one_deleted_entry_of_a_silent_worker_is_found_by_the_audit(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a, b = await follow(), await join("a"), await join("b")
    await eventually(lambda: agrees(follower, a, b))
    await follower_paused(follower)
    a.note(stored(1))
    await eventually(lambda: a.synced)
    newest = await execute(client, "XREVRANGE", NAMES.events, "+", "-", "COUNT", 1)
    await execute(client, "XDEL", NAMES.events, newest[0][0])
    b.note(stored(2))
    await eventually(lambda: b.synced)
    await follower.start()
    await eventually(lambda: agrees(follower, a, b))
    assert (follower.bootstraps, follower.gaps) == (1, 1)


async def test_view_that_differs_at_equal_sequence_is_found_by_its_digest(
    follow: FollowerFactory, join: WorkerFactory
) -> None:
    follower, a = await follow(), await join("a")
    a.note(stored(1, 2))
    await eventually(lambda: agrees(follower, a))
    follower.view.remove(A, index_keys([block(2)]))
    await eventually(lambda: agrees(follower, a))
    assert follower.gaps == 1


async def test_duplicated_and_shuffled_events_do_no_harm(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a = await follow(), await join("a")
    for number in range(1, 20):
        a.note(stored(number))
        await eventually(lambda: a.synced)
    await eventually(lambda: agrees(follower, a))
    entries = await execute(client, "XRANGE", NAMES.events, "-", "+")
    for _, fields in reversed(entries):
        flat = [part for pair in fields.items() for part in pair]
        await execute(client, "XADD", NAMES.events, "*", *flat)
    await eventually(lambda: follower.dups >= len(entries))
    await eventually(lambda: agrees(follower, a))


async def test_malformed_events_are_dropped_and_counted(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a = await follow(), await join("a")
    bad: list[dict[str, str | bytes | int]] = [
        {"x": 1},
        {"w": "a", "e": "what", "s": 1, "k": "d", "a": b"", "r": b""},
        {"w": "a", "e": a.epoch, "s": 1, "k": "d", "a": b"1234567", "r": b""},
        {"w": "a", "e": a.epoch, "s": 1, "k": "d", "a": b"8" * 8 * 8193, "r": b""},
        {"w": "a", "e": a.epoch, "s": 1, "k": "?"},
        {"w": "a", "e": a.epoch, "s": 1, "k": "r", "d": "{}"},
        {"w": b"\xff", "e": a.epoch, "s": 1, "k": "x"},
    ]
    for fields in bad:
        flat = [part for pair in fields.items() for part in pair]
        await execute(client, "XADD", NAMES.events, "*", *flat)
    await eventually(lambda: follower.malformed == len(bad))
    a.note(stored(1))
    await eventually(lambda: agrees(follower, a))


async def test_event_of_an_unregistered_worker_changes_nothing(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a = await follow(), await join("a")
    forged = ("w", "nobody", "e", 5, "s", 1, "k", "d", "a", b"8" * 8, "r", b"")
    await execute(client, "XADD", NAMES.events, "*", *forged)
    await eventually(lambda: follower.gaps == 1)
    a.note(stored(1))
    await eventually(lambda: agrees(follower, a))


async def test_dropped_worker_comes_back_with_its_next_beat_but_not_before(
    follow: FollowerFactory, join: WorkerFactory
) -> None:
    follower, a = await follow(), await join("a")
    a.note(stored(1))
    await eventually(lambda: agrees(follower, a))
    follower.drop(A)
    assert not follower.workers
    await eventually(lambda: agrees(follower, a))
    await a._cancel()  # Hangs now: its lease still runs for a while.
    follower.drop(A)
    await eventually(lambda: not follower._audit._suspects)
    assert not follower.workers


async def test_lost_functions_come_back_by_themselves(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a = await follow(), await join("a")
    await execute(client, "FUNCTION", "FLUSH")
    a.note(stored(1))
    await eventually(lambda: agrees(follower, a))
    assert a.registrations == 1


async def test_lost_data_is_said_again_by_the_workers(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    follower, a, b = await follow(), await join("a"), await join("b")
    a.note(stored(1, 2))
    b.note(stored(3))
    await eventually(lambda: agrees(follower, a, b))
    await client.flushall()
    await eventually(lambda: (a.registrations, b.registrations) == (2, 2))
    await eventually(lambda: agrees(follower, a, b))
    assert follower.bootstraps >= 2


async def test_cut_block_set_is_noticed_by_the_worker(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    a = await join("a")
    a.note(stored(1, 2))
    await eventually(lambda: a.synced)
    await client.delete(NAMES.blocks(A))
    await eventually(lambda: a.registrations == 2 and a.synced)
    follower = await follow()
    await eventually(lambda: agrees(follower, a))


async def test_slots_are_small_kept_and_used_again(join: WorkerFactory) -> None:
    a, b = await join("a"), await join("b")
    assert (a.slot, b.slot) == (0, 1)
    await a.withdraw()
    c = await join("c")
    assert c.slot == 0


async def test_ledger_row_of_a_reaper_that_died_is_closed_by_the_audit(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    a = await join("a", lease_s=60.0)
    await a._cancel()
    # As if a router had reaped it, and died before it could close the row.
    await functions.call(client, IndexCalls(NAMES).withdraw(A, a.epoch))
    assert (await row_epoch(client)) == a.epoch
    await follow()
    async with asyncio.timeout(10):
        while await row_epoch(client):
            pass


async def row_epoch(client: RedisClient) -> int:
    """Epoch in the ledger's first row; 0: the slot is not alive."""
    rows = await get(client, NAMES.rows) or bytes(8)
    return int(struct.unpack_from("<d", rows)[0])


async def test_comparison_shows_each_side(follow: FollowerFactory, join: WorkerFactory) -> None:
    follower, a = await follow(), await join("a")
    a.note(stored(1, 2))
    await eventually(lambda: agrees(follower, a))
    found = await follower.compare()
    assert [(one.worker, one.equal) for one in found] == [(A, True)]
    assert found[0].ours is not None
    assert (found[0].ours.blocks, found[0].ours.digest) == (2, 3)
    await tasks.end(follower._task)
    follower.drop(A)
    assert not (await follower.compare())[0].equal


async def test_two_versions_of_the_libraries_live_side_by_side(
    follow: FollowerFactory, join: WorkerFactory, client: RedisClient
) -> None:
    a = await join("a")
    for source in functions.sources():
        await execute(client, "FUNCTION LOAD", source.replace("kvroute_v1_", "kvroute_v2_"))
    follower = await follow()
    a.note(stored(1))
    await eventually(lambda: agrees(follower, a))
    names = NAMES
    keys = (names.queues, names.rows, names.weights, names.sessions)
    one = await execute(client, "FCALL", "kvroute_v1_peek", 4, *keys)
    two = await execute(client, "FCALL", "kvroute_v2_peek", 4, *keys)
    assert one == two
    await execute(client, "FUNCTION DELETE", "kvroute_v2_index")
    await execute(client, "FUNCTION DELETE", "kvroute_v2_ledger")


async def test_models_are_discovered(join: WorkerFactory, client: RedisClient) -> None:
    await join("a")
    assert await discover_models(client) == {MODEL: NAMES.tag}


async def test_epoch_is_never_used_twice_even_when_the_clock_goes_back(
    join: WorkerFactory, client: RedisClient
) -> None:
    a = await join("a")
    future = a.epoch + 10_000_000
    calls = IndexCalls(NAMES)
    await functions.call(client, calls.join(a.slot, Epoch(future), keep_weights=True))
    await execute(client, "DEL", NAMES.registry, NAMES.meta(A))
    await eventually(lambda: a.epoch >= future)
    await eventually(lambda: a.connected)
