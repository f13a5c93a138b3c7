from __future__ import annotations

import pytest

from cache_index.base import RouterId
from cache_index.costs import Candidate, LedgerState, SlotLoad, cheapest, price
from cache_index.ledger import MAX_OBSERVATIONS, Booking, ServiceTimes, Session
from cache_index.ledger_codec import Booked, Entry, unpack_booked, unpack_state
from cache_index.names import Names
from router_svc.policy.base import Costs
from router_svc.policy.cost import prefill_ms

TIMES = ServiceTimes(hit=0, miss=10, prefill_ms=3.0, batch_size=1.0, step_ms=20.0, output_tokens=5)


def session() -> Session:
    return Session(Names.of("m"), RouterId("r"), ttl_s=1.5)


def book(of: Session, slot: int = 0, us: int = 1000, deadline: float = 100.0) -> Booking:
    reply = Booked(slot=slot, epoch=7, gen=3.0, us=us, cost_ms=1.0, kappa=3.0, tokens=50)
    return of.booked(reply, blocks=4, deadline=deadline)


def load(queue_us: float = 0.0, outstanding: int = 0, alive: bool = True) -> SlotLoad:
    return SlotLoad(alive, 1, 1.0, queue_us, outstanding, 0, 0, 0, Costs())


def test_sums_follow_first_token_and_finish() -> None:
    mine = session()
    first, second = book(mine), book(mine)
    assert mine.sums() == [Entry(0, 3.0, 2000, 2, 100, 8)]
    assert mine.first_token(first)
    assert mine.sums() == [Entry(0, 3.0, 1000, 2, 50, 8)]
    assert mine.finish(first)
    assert mine.sums() == [Entry(0, 3.0, 1000, 1, 50, 4)]
    assert mine.finish(second)
    assert mine.sums() == []
    mine.check()


def test_every_end_counts_once() -> None:
    mine = session()
    booking = book(mine)
    assert mine.first_token(booking)
    assert not mine.first_token(booking)
    assert mine.finish(booking)
    assert not mine.finish(booking)
    assert not mine.first_token(booking)
    assert mine.pending == 2


def test_opening_says_the_absolute_state_and_voids_what_is_pending() -> None:
    mine = session()
    first, _ = book(mine), book(mine, slot=1)
    mine.finish(first)
    call = mine.open_call()
    assert mine.pending == 0
    entries = call.args[2]
    assert isinstance(entries, bytes) and len(entries) == 42  # One: the booking on slot 1.


def test_deadlines_are_looked_at_in_rotation() -> None:
    mine = session()
    for number in range(10):
        book(mine, deadline=50.0 if number % 2 else 0.0)
    ended = [len(mine.expire(10.0)) for _ in range(5)]
    assert ended == [1] * 5
    assert mine.open_bookings == 5


def test_nonsense_of_a_worker_is_not_learned() -> None:
    mine = session()
    for bad in (float("nan"), float("inf"), -1.0):
        mine.finish(book(mine), ServiceTimes(0, 10, bad, 1.0, 20.0, 5))
    assert mine.settle_call().args[3] == b""


def test_observations_are_bounded_while_redis_is_away() -> None:
    mine = session()
    for _ in range(MAX_OBSERVATIONS + 10):
        mine.finish(book(mine), TIMES)
    mine.check()


def test_refusals_are_no_bookings() -> None:
    for reply in (b"FENCED", b"DUP", b"GAP", b"NOCAND"):
        assert unpack_booked(reply) is None


def test_empty_ledger_is_an_empty_state() -> None:
    assert unpack_state([b"", b"", b"", 0]).slots == {}


def test_hit_is_cheaper_than_miss_and_attention_grows_with_the_prompt() -> None:
    costs = Costs()
    assert prefill_ms(costs, 2000, 1900) < prefill_ms(costs, 2000, 0) / 4
    assert prefill_ms(costs, 8000, 0) > 4 * prefill_ms(costs, 2000, 0)
    assert prefill_ms(costs, 100, 100) == prefill_ms(costs, 100, 99)


def test_queue_outweighs_a_hit_when_it_is_long() -> None:
    candidates = [Candidate(slot=0, hit=900), Candidate(slot=1, hit=0)]
    short = LedgerState(slots={0: load(100_000), 1: load()})
    long = LedgerState(slots={0: load(10_000_000), 1: load()})
    chosen = cheapest(price(short, 1000, candidates), 0)
    assert chosen is not None and chosen.candidate.slot == 0
    chosen = cheapest(price(long, 1000, candidates), 0)
    assert chosen is not None and chosen.candidate.slot == 1


@pytest.mark.parametrize(("weight", "slot"), [(1.0, 0), (0.05, 1)])
def test_price_of_a_miss_falls_when_it_is_an_investment(weight: float, slot: int) -> None:
    state = LedgerState(slots={0: load(90_000), 1: load()})
    candidates = [Candidate(0, 900), Candidate(1, 0, weight=weight)]
    chosen = cheapest(price(state, 1000, candidates), 0)
    assert chosen is not None and chosen.candidate.slot == slot


def test_dead_slots_have_no_price_and_ties_are_broken_by_the_number_given() -> None:
    state = LedgerState(slots={0: load(), 1: load(), 2: load(alive=False)})
    candidates = [Candidate(0, 0), Candidate(1, 0), Candidate(2, 0), Candidate(9, 0)]
    priced = price(state, 100, candidates)
    assert [entry.candidate.slot for entry in priced] == [0, 1]
    chosen = [cheapest(priced, tie) for tie in range(4)]
    assert [entry.candidate.slot for entry in chosen if entry] == [0, 1, 0, 1]
    assert cheapest([], 0) is None


@pytest.mark.parametrize(("least_us", "kappa"), [(0, 3.0), (500_000, 8.0), (5_000_000, 16.0)])
def test_kappa_grows_with_the_least_queue(least_us: float, kappa: float) -> None:
    slots = {0: load(least_us), 1: load(least_us + 1), 2: load(0, alive=False)}
    assert LedgerState(slots=slots).kappa() == kappa
