"""The Lua choice in Redis and LBGR+ in Python are twins: over the state that a router peeks, both
choose the same worker at the same cost.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

import pytest
from redis import Redis

from cache_index.base import Epoch, RouterId
from cache_index.costs import Candidate as Ask
from cache_index.costs import LedgerState
from cache_index.embedded import EmbeddedServer
from cache_index.functions import Call, sources
from cache_index.index_calls import IndexCalls
from cache_index.ledger import Booking, ServiceTimes, Session
from cache_index.ledger_codec import unpack_booked, unpack_state
from cache_index.names import Names
from router_svc.policy.base import Candidate, Fleet, Request
from router_svc.policy.lbgr_plus import LbgrPlus

NAMES = Names.of("twin")
CALLS = IndexCalls(NAMES)
SLOTS = 8
"""As many as a shortlist holds: both price every worker."""
ROUTES = 10_000
T = TypeVar("T")


class Turn(random.Random):
    """Picks among equals as the ledger does: entry number `turn` of the equals, counted around."""

    turn = 0

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[self.turn % len(seq)]


@pytest.fixture
def client(valkey: str, valkey_process: EmbeddedServer) -> Iterator[Redis]:
    client = Redis(unix_socket_path=str(valkey_process.directory / "redis.sock"))
    for source in sources():
        client.function_load(source, replace=True)
    yield client
    client.close()


class Twins:
    """One ledger, driven at random, and the policy beside it."""

    def __init__(self, client: Redis, seed: int) -> None:
        self.client = client
        self.rng = random.Random(seed)
        self.session = Session(NAMES, RouterId("r"), ttl_s=3600.0)
        self.policy, self.turn = LbgrPlus(), Turn()
        self.epochs: dict[int, int] = {}
        self.open: list[Booking] = []
        self.ties = 0
        self.learning = False
        self.session.opened(self.call(self.session.open_call()))
        for slot in range(SLOTS):
            self.join(slot)

    def call(self, call: Call) -> Any:
        return cast(Any, self.client).execute_command(*call.command())

    def join(self, slot: int) -> None:
        self.epochs[slot] = self.epochs.get(slot, slot * 1_000_000) + 1
        call = CALLS.join(slot, Epoch(self.epochs[slot]), keep_weights=False)
        assert self.call(call) == b"OK"

    def leave(self, slot: int) -> None:
        assert self.call(CALLS.leave(slot, Epoch(self.epochs[slot]))) == 1

    def peek(self) -> LedgerState:
        keys = (NAMES.queues, NAMES.rows, NAMES.weights, NAMES.sessions)
        return unpack_state(self.call(Call("peek", keys)))

    def route(self) -> None:
        """Asks both and compares."""
        rng, state = self.rng, self.peek()
        length = rng.choice((1, 17, 512, 2048, 8192))
        # A few values only, so that equals are common.
        hits = (0, 0, length // 2, length - 1)
        candidates = [
            Candidate(
                f"w{slot}",
                slot,
                hit=rng.choice(hits),
                queue_ms=row.queue_us / 1000.0,
                outstanding=row.outstanding,
                costs=row.costs,
            )
            for slot, row in state.slots.items()
            if row.alive
        ]
        rng.shuffle(candidates)
        request = Request(length, reuse=rng.choice((0.0, 1.0, 8.0)))
        self.turn.turn = rng.getrandbits(31)
        decision = self.policy.choose(request, Fleet(candidates, state.mean_output), self.turn)
        asked = [Ask(p.candidate.slot, p.candidate.hit, p.miss_weight) for p in decision.shortlist]
        call = self.session.route_call(length, asked, tokens=None, blocks=1, random=self.turn.turn)
        booked = unpack_booked(self.call(call))
        assert booked is not None
        chosen = decision.chosen
        assert booked.slot == chosen.candidate.slot
        assert booked.cost_ms == pytest.approx(chosen.cost, rel=1e-9, abs=1e-6)
        assert booked.us == pytest.approx(chosen.prefill_ms * 1000, abs=0.51)
        assert booked.kappa == pytest.approx(decision.kappa, abs=1e-9)
        assert booked.tokens == chosen.miss
        self.ties += sum(price.cost <= chosen.cost + 1e-6 for price in decision.prices) > 1
        self.open.append(self.session.booked(booked, blocks=1, deadline=float("inf")))

    def settle(self) -> None:
        """Ends some of the bookings; the workers' weights drift apart by what they report."""
        rng = self.rng
        rng.shuffle(self.open)
        keep = rng.choice((0, 0, 4, 40))
        for booking in self.open[keep:]:
            speed = 1 + booking.slot % 3
            service = ServiceTimes(
                hit=rng.randrange(2000),
                miss=rng.randrange(1, 2000),
                prefill_ms=rng.uniform(5, 200) / speed,
                batch_size=rng.uniform(1, 8),
                step_ms=rng.uniform(10, 40) / speed,
                output_tokens=rng.randrange(1, 200),
            )
            self.session.finish(booking, service if self.learning else None)
        del self.open[keep:]
        self.call(self.session.settle_call())

    def restart(self) -> None:
        """A worker leaves or comes anew, or all that was learned is forgotten: equals again."""
        rng = self.rng
        self.learning = rng.random() < 0.5
        if not self.learning:
            self.call(Call("reset", (NAMES.rows, NAMES.weights, NAMES.covariances)))
            return
        slot = rng.randrange(SLOTS)
        alive = {other for other, row in self.peek().slots.items() if row.alive}
        if slot in alive and len(alive) > 2:
            self.leave(slot)
        else:
            self.join(slot)


def test_lua_and_python_choose_the_same_worker_at_the_same_cost(client: Redis) -> None:
    twins = Twins(client, seed=20260101)
    for number in range(ROUTES):
        twins.route()
        if number % 8 == 7:
            twins.settle()
        if number % 200 == 199:
            twins.restart()
    # Worth little if equals never came up.
    assert twins.ties > ROUTES // 50
