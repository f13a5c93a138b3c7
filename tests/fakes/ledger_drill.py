"""Random life of a ledger with every fault that the protocol must survive, checked after every
step.

Routers book, settle, beat, crash, expire; workers restart, leave, come back as zombies; messages
are lost, answered in vain, sent twice and sent late; Redis loses its data or falls back to an old
copy.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

from redis import Redis

from cache_index.base import RouterId
from cache_index.costs import Candidate
from cache_index.functions import Call
from cache_index.ledger import Booking, ServiceTimes, Session
from cache_index.ledger_codec import Observation, unpack_booked
from tests.fakes.ledger_reference import Held
from tests.fakes.ledger_server import NAMES, LedgerServer

REFUSALS = (b"FENCED", b"DUP", b"GAP")
TTL_S = 0.06


@dataclass(slots=True)
class Router:
    """A session, whether its connection stands, and what its next settlement says."""

    session: Session
    up: bool = False
    open: dict[int, Booking] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    said: list[tuple[int, bool]] = field(default_factory=list)
    seen: list[Observation] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.session._router


@dataclass(frozen=True, slots=True)
class Late:
    """A message that was lost, and may yet arrive."""

    call: Call
    router: str
    incarnation: str
    apply: Callable[[Any], None]


class LedgerDrill(LedgerServer):
    """`run(steps)` raises AssertionError at the first step after which they differ."""

    def __init__(self, client: Redis, seed: int, workers: int = 6, routers: int = 4) -> None:
        super().__init__(client, seed, workers)
        self.ids = count(1)
        self.late: list[Late] = []
        self.faults = True
        self.routers = [self.boot() for _ in range(routers)]

    # -- messages

    def send(self, router: Router, call: Call, apply: Callable[[Any], None]) -> Any:
        """The reply, or None when the router does not see one."""
        chances = (90, 3, 4, 3) if self.faults else (1, 0, 0, 0)
        fault = self.rng.choices(("ok", "lost", "no reply", "twice"), chances)[0]
        self.happened[fault] += 1
        if fault == "lost":
            router.up = False
            self.late.append(Late(call, router.name, router.session._incarnation, apply))
            return None
        reply = self.call(call)
        if reply not in REFUSALS:
            apply(reply)
        if fault == "twice":
            assert self.call(call) in (b"DUP", b"FENCED", b"GAP"), "applied twice"
        if reply in REFUSALS:
            router.up = False
            self.happened[reply.decode()] += 1
            return None
        if fault == "no reply":
            router.up = False
            return None
        return reply

    def arrive_late(self) -> None:
        if not self.late:
            return
        late = self.rng.choice(self.late)
        head = self.client.getrange(NAMES.session(RouterId(late.router)), 0, 7)
        reply = self.call(late.call)
        if reply in REFUSALS:
            self.happened["late " + reply.decode()] += 1
            return
        # Right only if its session still stands: a valid message, undone by the next opening.
        assert len(cast(bytes, head)) == 8, "applied to a closed session"
        found = struct.unpack("<d", cast(bytes, head))[0]
        assert found == float(late.incarnation), "applied to a session that was replaced"
        self.late.remove(late)
        late.apply(reply)
        self.happened["late, in order"] += 1

    # -- routers

    def boot(self) -> Router:
        session = Session(NAMES, RouterId(f"r{next(self.ids)}"), TTL_S)
        session._numbers = self.ids  # Booking numbers are unique over all routers here.
        return Router(session)

    def ensure_open(self, router: Router) -> None:
        if router.up:
            return
        router.session.opened(self.call(router.session.open_call()))
        router.up = True
        router.said.clear()
        self.truth.sessions[router.name] = {
            b.number: self.held(b, b.number in router.waiting)
            for b in router.open.values()
            if self.truth.gens.get(b.slot) == b.gen and self.truth.epochs.get(b.slot)
        }
        self.happened["open"] += 1

    @staticmethod
    def held(b: Booking, waiting: bool) -> Held:
        return Held(b.slot, b.gen, b.prefill_us, b.tokens, b.blocks, waiting)

    def route(self, router: Router) -> None:
        self.ensure_open(router)
        rng, prompt, blocks = self.rng, self.rng.randint(2, 8000), self.rng.randint(0, 500)
        slots = rng.sample(sorted(self.truth.epochs), rng.randint(1, len(self.truth.epochs)))
        plain = rng.random() < 0.2
        candidates = [
            Candidate(s, 0, 1.0) if plain else Candidate(s, rng.randint(0, prompt), rng.random())
            for s in slots
        ]
        tokens = rng.choice([None, rng.randint(0, 9000)])
        call = router.session.route_call(
            prompt, candidates, tokens=tokens, blocks=blocks, random=rng.getrandbits(31)
        )
        number = next(self.ids)

        def apply(reply: bytes) -> None:
            costs = self.truth.costs(prompt, candidates)
            if reply == b"NOCAND":
                assert not costs, "refused a live candidate"
                return
            booked = unpack_booked(reply)
            assert booked is not None
            least = min(cost for cost, _ in costs.values())
            cost, prefill = costs[booked.slot]
            assert abs(booked.cost_ms - least) < 1e-6 * max(1.0, least), "not the least cost"
            assert cost <= least + 2e-6 * max(1.0, least), "not the cheapest worker"
            assert abs(booked.us - prefill * 1000) < 0.51
            assert abs(booked.kappa - self.truth.state().kappa()) < 1e-9
            assert booked.epoch == self.truth.epochs[booked.slot]
            hit = next(c.hit for c in candidates if c.slot == booked.slot)
            assert booked.tokens == (prompt - hit if tokens is None else tokens)
            self.truth.sessions[router.name][number] = Held(
                booked.slot, booked.gen, booked.us, booked.tokens, blocks
            )

        reply = self.send(router, call, apply)
        booked = unpack_booked(reply) if reply else None
        if booked is None:
            return
        life = rng.choice([30.0, 30.0, 0.02])
        booking = router.session.booked(booked, blocks=blocks, deadline=time.monotonic() + life)
        held = self.truth.sessions[router.name].pop(number)
        self.truth.sessions[router.name][booking.number] = held
        router.open[booking.number] = booking
        router.waiting.add(booking.number)
        self.happened["route"] += 1

    def first_token(self, router: Router) -> None:
        if router.waiting:
            number = self.rng.choice(sorted(router.waiting))
            assert router.session.first_token(router.open[number])
            assert not router.session.first_token(router.open[number])
            router.waiting.discard(number)
            router.said.append((number, False))

    def finish(self, router: Router) -> None:
        if router.open:
            booking = router.open[self.rng.choice(sorted(router.open))]
            service = self.service() if self.rng.random() < 0.6 else None
            assert router.session.finish(booking, service)
            assert not router.session.finish(booking, service)
            router.seen += router.session._observations[len(router.seen) :]
            self.ended(router, booking)

    def ended(self, router: Router, booking: Booking) -> None:
        del router.open[booking.number]
        router.waiting.discard(booking.number)
        router.said.append((booking.number, True))

    def service(self) -> ServiceTimes:
        rng = self.rng
        hit, miss = rng.randint(0, 4000), rng.randint(1, 4000)
        prefill = max(0.1, 3 + 0.02 * hit + 0.1 * miss + rng.gauss(0, 1))
        return ServiceTimes(
            hit,
            miss,
            rng.choice([0.0, prefill]),
            rng.uniform(1, 20),
            rng.choice([0.0, 18 + rng.random()]),
            rng.randint(0, 100),
        )

    def settle(self, router: Router) -> None:
        self.ensure_open(router)
        said, seen = list(router.said), list(router.seen)
        router.said.clear()
        router.seen.clear()

        def apply(_: int) -> None:
            bookings = self.truth.sessions[router.name]
            for number, is_end in said:
                if number in bookings:
                    if is_end:
                        del bookings[number]
                    else:
                        bookings[number].waiting = False
            for observation in seen:
                self.truth.observe(observation)
            self.check_weights()

        self.send(router, router.session.settle_call(), apply)

    def beat(self, router: Router) -> None:
        self.ensure_open(router)
        expired = self.send(router, router.session.beat_call(), lambda _: None)
        for name in expired or ():
            if self.call(router.session.close_call(RouterId(name.decode()))) == 1:
                self.truth.sessions[name.decode()] = {}
                self.happened["closed"] += 1

    def expire(self, router: Router) -> None:
        for booking in router.session.expire(time.monotonic(), at_beat=True):
            self.ended(router, booking)
            self.happened["expired"] += 1

    def fall_back(self) -> None:
        if self.backup is not None:
            self.late.clear()  # They belong to a time that never was.
            self.roll_back()

    def crash(self, router: Router) -> None:
        self.routers[self.routers.index(router)] = self.boot()
        self.happened["crash"] += 1

    # -- running and checking

    def step(self) -> None:
        router, slot = self.rng.choice(self.routers), self.rng.choice(sorted(self.truth.epochs))
        steps: list[tuple[float, Callable[[], None]]] = [
            (38, lambda: self.route(router)),
            (17, lambda: self.first_token(router)),
            (17, lambda: self.finish(router)),
            (13, lambda: self.settle(router)),
            (7, lambda: self.beat(router)),
            (1, lambda: self.expire(router)),
            (1.5, self.arrive_late),
            (0.5, lambda: self.crash(router)),
            (1, lambda: self.join(slot, keep=self.rng.random() < 0.5)),
            (0.5, lambda: self.leave(slot)),
            (0.5, lambda: self.zombie(slot)),
            (2, lambda: self.idle_beats(slot)),
            (0.5, self.save),
            (0.4, self.fall_back),
            (0.1, self.lose_data),
        ]
        weights = [weight for weight, _ in steps]
        self.rng.choices([action for _, action in steps], weights)[0]()
        self.check()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.quiesce()

    def quiesce(self) -> None:
        """Everybody finishes and beats: every sum must be exactly zero."""
        self.faults = False
        for slot in self.epoch_of:
            if not self.truth.epochs.get(slot):
                self.join(slot, keep=True)
        for router in self.routers:
            while router.open:
                self.finish(router)
            self.settle(router)
        for _ in range(200):
            for router in self.routers:
                self.beat(router)
            self.check()
            if not any(any(s.values()) for s in self.truth.sessions.values()):
                break
            time.sleep(0.01)  # Sessions of crashed routers run out by the server's clock.
        for slot in self.truth.epochs:
            sums = self.truth.sums(slot)
            assert (sums.us, sums.outstanding, sums.tokens, sums.blocks) == (0, 0, 0, 0)
        self.check()
