"""The ledger client against a real server: choice, settlement, sessions, degraded mode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from cache_index import functions
from cache_index.base import Epoch, RouterId
from cache_index.commands import RedisClient, execute
from cache_index.costs import Candidate, LedgerState
from cache_index.index_calls import IndexCalls
from cache_index.ledger import Booking, NoCandidate, ServiceTimes
from cache_index.ledger_client import LedgerClient
from cache_index.names import Names
from cache_index.redis_url import client_from_url
from kvroute.errors import Unavailable
from router_svc.policy.base import Costs
from tests.fakes.fleet import MODEL, eventually
from tests.fakes.valkey import StartServer

NAMES = Names.of(MODEL)
CALLS = IndexCalls(NAMES)
LedgerFactory = Callable[..., Awaitable[LedgerClient]]
BOTH = (Candidate(0, 900), Candidate(1, 0))


@pytest.fixture
async def client(valkey: str) -> AsyncIterator[RedisClient]:
    client = client_from_url(valkey)
    for slot in (0, 1):
        await functions.call(client, CALLS.join(slot, Epoch(100 + slot), keep_weights=False))
    yield client
    await client.aclose()


@pytest.fixture
async def ledger_of(valkey: str, client: RedisClient) -> AsyncIterator[LedgerFactory]:
    async with AsyncExitStack() as stack:

        async def make(name: str, ttl_s: float = 1.5) -> LedgerClient:
            ledger = LedgerClient(valkey, MODEL, RouterId(name), session_ttl_s=ttl_s, seed=1)
            await ledger.start()
            stack.push_async_callback(ledger.stop)
            return ledger

        yield make


async def fresh(ledger: LedgerClient) -> LedgerState:
    ledger._peeked_at = float("-inf")
    return await ledger.peek()


def is_zero(state: LedgerState) -> bool:
    return all(
        (s.queue_us, s.outstanding, s.tokens, s.blocks) == (0, 0, 0, 0)
        for s in state.slots.values()
    )


async def until_zero(ledger: LedgerClient) -> None:
    async with asyncio.timeout(10):
        while not is_zero(await fresh(ledger)):  # noqa: ASYNC110 (Redis holds it)
            await asyncio.sleep(0.005)


async def test_the_hit_is_chosen_and_booked_until_it_ends(ledger_of: LedgerFactory) -> None:
    ledger = await ledger_of("r")
    booking = await ledger.book(1000, BOTH, blocks=63)
    assert (booking.slot, booking.epoch, booking.tokens) == (0, 100, 100)
    state = await fresh(ledger)
    assert state.slots[0].queue_us == booking.prefill_us > 0
    assert (state.slots[0].outstanding, state.slots[0].tokens) == (1, 100)
    assert (state.slots[0].blocks, state.routers) == (63, 1)
    ledger.first_token(booking)
    state = await fresh(ledger)
    assert (state.slots[0].queue_us, state.slots[0].outstanding) == (0, 1)
    assert (state.slots[0].tokens, state.slots[0].blocks) == (0, 63)
    assert ledger.finish(booking)
    assert not ledger.finish(booking)
    assert is_zero(await fresh(ledger))


async def test_two_routers_see_each_others_load(ledger_of: LedgerFactory) -> None:
    one, two = await ledger_of("one"), await ledger_of("two")
    equal = (Candidate(0, 0), Candidate(1, 0))
    first, second = await one.book(4000, equal), await two.book(4000, equal)
    assert {first.slot, second.slot} == {0, 1}
    assert (await fresh(one)).routers == 2


async def test_given_tokens_are_booked_as_given(ledger_of: LedgerFactory) -> None:
    ledger = await ledger_of("r")
    booking = await ledger.book(1000, BOTH[:1], tokens=7)
    assert booking.tokens == 7
    assert (await fresh(ledger)).slots[0].tokens == 7


async def test_many_calls_of_one_turn_share_one_settlement(ledger_of: LedgerFactory) -> None:
    ledger = await ledger_of("r")
    bookings = await asyncio.gather(*(ledger.book(500, BOTH) for _ in range(50)))
    before = ledger._session._seq
    for booking in bookings:
        ledger.first_token(booking)
        ledger.finish(booking)
    await until_zero(ledger)
    assert ledger._session._seq <= before + 2  # The settlement, and perhaps a beat.


async def test_no_live_candidate_books_nothing(ledger_of: LedgerFactory) -> None:
    ledger = await ledger_of("r")
    with pytest.raises(NoCandidate):
        await ledger.book(100, [Candidate(5, 0)])
    assert is_zero(await fresh(ledger))


async def test_cancelled_booking_is_taken_back(ledger_of: LedgerFactory) -> None:
    ledger = await ledger_of("r")
    for turns in range(6):
        task = asyncio.create_task(ledger.book(1000, BOTH))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until_zero(ledger)
    assert ledger.open_bookings == 0


async def test_booking_past_its_deadline_ends_by_itself(ledger_of: LedgerFactory) -> None:
    ledger = await ledger_of("r", ttl_s=0.15)
    await ledger.book(1000, BOTH, deadline_s=0.0)
    await until_zero(ledger)
    assert ledger.open_bookings == 0


async def test_dead_routers_bookings_vanish_with_its_session(ledger_of: LedgerFactory) -> None:
    dead, other = await ledger_of("dead", ttl_s=0.2), await ledger_of("other", ttl_s=0.2)
    await dead.book(4000, BOTH)
    assert not is_zero(await fresh(other))
    assert dead._task is not None
    dead._task.cancel()  # No beats any more: as good as dead.
    await until_zero(other)
    assert (await fresh(other)).routers == 1


async def test_router_that_was_closed_meanwhile_opens_again_with_its_state(
    ledger_of: LedgerFactory, client: RedisClient
) -> None:
    ledger = await ledger_of("r")
    booking = await ledger.book(1000, BOTH)
    await functions.call(client, ledger._session.close_call())
    assert is_zero(await fresh(ledger))
    second = await ledger.book(1000, BOTH)
    state = await fresh(ledger)
    assert state.slots[0].queue_us == booking.prefill_us + second.prefill_us
    ledger.finish(booking)
    ledger.finish(second)
    await until_zero(ledger)


async def test_stopping_takes_everything_back(ledger_of: LedgerFactory) -> None:
    one, two = await ledger_of("one"), await ledger_of("two")
    await one.book(1000, BOTH)
    await one.stop()
    assert is_zero(await fresh(two))


async def test_service_times_are_learned(ledger_of: LedgerFactory) -> None:
    ledger = await ledger_of("r")
    for number in range(200):
        miss = 100 + 37 * (number % 50)
        booking = await ledger.book(miss + 900, BOTH[:1])
        times = ServiceTimes(900, miss, 5.0 + 0.05 * miss, 1.0 + number % 4, 30.0, 12)
        ledger.finish(booking, times)
    state = await fresh(ledger)
    learned = state.slots[0].costs
    assert learned.miss_ms == pytest.approx(50.0, rel=0.1)
    assert state.mean_output == pytest.approx(12.0)
    assert learned.step_base_ms == pytest.approx(30.0, rel=0.1)
    assert await ledger.reset_weights() == 2
    state = await fresh(ledger)
    assert (state.slots[0].costs, state.mean_output) == (Costs(), 32.0)


async def test_worker_that_is_idle_for_sure_has_its_row_cleared(
    ledger_of: LedgerFactory, client: RedisClient
) -> None:
    ledger = await ledger_of("r")
    booking = await ledger.book(1000, BOTH)
    beat = CALLS.wbeat(0, Epoch(100), 0, 0)
    replies = [await functions.call(client, beat) for _ in range(4)]
    assert [reply[2] for reply in replies] == [0, 0, 0, 1]
    assert is_zero(await fresh(ledger))
    ledger.finish(booking)  # Of an older generation: void.
    assert is_zero(await fresh(ledger))


async def test_lost_functions_and_lost_data_heal(
    ledger_of: LedgerFactory, client: RedisClient
) -> None:
    ledger = await ledger_of("r")
    await execute(client, "FUNCTION", "FLUSH")
    booking = await ledger_eventually_books(ledger)
    assert (await fresh(ledger)).slots[0].queue_us == booking.prefill_us
    await client.flushall()
    await functions.call(client, CALLS.join(0, Epoch(500), keep_weights=False))
    second = await ledger_eventually_books(ledger)
    assert second.epoch == 500
    ledger.finish(booking)
    ledger.finish(second)
    await until_zero(ledger)


async def ledger_eventually_books(ledger: LedgerClient) -> Booking:
    async with asyncio.timeout(10):
        while True:
            try:
                return await ledger.book(1000, BOTH)
            except Unavailable:
                await asyncio.sleep(0.01)


async def test_redis_away_books_locally_and_comes_back_with_everything(
    start_valkey: StartServer,
) -> None:
    server = await start_valkey()
    client = client_from_url(server.url)
    await functions.call(client, CALLS.join(0, Epoch(1), keep_weights=False))
    ledger = LedgerClient(server.url, MODEL, RouterId("r"), session_ttl_s=0.3, seed=1)
    await ledger.start()
    held = await ledger.book(1000, BOTH)
    await ledger.peek()
    await server.kill()
    with pytest.raises(Unavailable):
        await ledger.book(1000, BOTH)
    assert not ledger.available
    local = ledger.book_local(1000, BOTH)
    assert local.degraded
    assert local.slot == 0 and local.gen == held.gen
    assert ledger.local_state().slots[0].queue_us == held.prefill_us + local.prefill_us
    unknown = ledger.book_local(1000, [Candidate(7, 0)])
    assert unknown.slot == 7
    ledger.first_token(local)
    assert ledger.finish(local) and ledger.finish(unknown)
    await server.start()
    await functions.call(client, CALLS.join(0, Epoch(2), keep_weights=False))
    again = await ledger_eventually_books(ledger)
    ledger.finish(held)
    ledger.finish(again)
    await until_zero(ledger)
    await eventually(lambda: ledger.available)
    await ledger.stop()
    await client.aclose()


async def test_redis_away_from_the_start_is_no_error(start_valkey: StartServer) -> None:
    server = await start_valkey()
    await server.kill()
    ledger = LedgerClient(server.url, MODEL, RouterId("r"), session_ttl_s=0.3)
    await ledger.start()
    assert not ledger.available
    await server.start()
    await eventually(lambda: ledger.available)
    await ledger.stop()
