"""A router's side of the load ledger: its open bookings, and what Redis still has to be told.

The table of open bookings is the truth; Redis holds its sums. One ordered connection is one session
(incarnation, sequence). On any doubt nothing is repeated: a new session begins with the absolute
state, which replaces the old sums in one step. Pure: time, randomness and transport come from
outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice

from cache_index.base import RouterId
from cache_index.costs import Candidate, LedgerState, Price
from cache_index.functions import Call
from cache_index.ledger_codec import (
    Booked,
    Entry,
    Observation,
    pack_candidates,
    pack_entries,
    pack_observations,
)
from cache_index.names import Names
from kvroute.errors import Unavailable

MAX_OBSERVATIONS = 1024
"""Kept for the next settlement; while Redis is away older ones go first."""
MAX_TOKENS = 2**31
_EXPIRE_AT_ROUTE = 2
_EXPIRE_AT_BEAT = 64


class NoCandidate(Unavailable):
    """None of the candidates' slots is alive in the ledger; nothing was booked."""


@dataclass(frozen=True, slots=True)
class Booking:
    """Load that this router put on a slot. `gen` tags the row: later settlements of an older gen
    are void.

    `prefill_us`: the predicted prefill c, booked until the first token. `cost_ms`: E of the chosen
    candidate. `tokens`: booked until the first token; `blocks`: until the end. `degraded`: chosen
    from local knowledge. `deadline`: of the router's monotonic clock, seconds.
    """

    number: int
    slot: int
    epoch: int
    gen: float
    prefill_us: int
    cost_ms: float
    kappa: float
    tokens: int
    blocks: int
    deadline: float
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """What a finished request cost its worker, as measured there; what the learner sees.

    `hit`, `miss`: prompt tokens; `prefill_ms`: its share of prefill steps (0: unknown);
    `batch_size`, `step_ms`: means over its decode steps (0: none); `output_tokens`.
    """

    hit: int
    miss: int
    prefill_ms: float
    batch_size: float
    step_ms: float
    output_tokens: int


@dataclass(slots=True)
class _Open:
    booking: Booking
    waiting: bool = True
    """The first token has not come."""

    def load(self) -> Entry:
        b, waiting = self.booking, self.waiting
        return Entry(
            b.slot, b.gen, b.prefill_us if waiting else 0, 1, b.tokens if waiting else 0, b.blocks
        )


class Session:
    """Bookings of one router on one model, and the calls that keep Redis' sums equal to them."""

    def __init__(self, names: Names, router: RouterId, ttl_s: float) -> None:
        self._names = names
        self._router = router
        self._ttl_us = round(ttl_s * 1e6)
        self._incarnation = "0"
        self._seq = 0
        self._numbers = count(1)
        self._open: dict[int, _Open] = {}
        self._entries: list[Entry] = []
        self._observations: list[Observation] = []

    @property
    def open_bookings(self) -> int:
        return len(self._open)

    @property
    def pending(self) -> int:
        """Settlements and observations that Redis was not told of."""
        return len(self._entries) + len(self._observations)

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    # -- a session's beginning and end

    def open_call(self) -> Call:
        """The absolute state. It contains every settlement so far, so the pending ones are void."""
        self._entries.clear()
        names = self._names
        return Call(
            "open",
            (names.queues, names.rows, names.session(self._router), names.sessions),
            (self._router, self._ttl_us, pack_entries(self.sums())),
        )

    def opened(self, incarnation: bytes) -> None:
        self._incarnation, self._seq = incarnation.decode(), 0

    def beat_call(self) -> Call:
        names = self._names
        return Call(
            "rbeat",
            (names.session(self._router), names.sessions),
            (self._router, self._incarnation, self._next(), self._ttl_us),
        )

    def close_call(self, router: RouterId | None = None) -> Call:
        """Ends this session, or that of another `router` if it ran out."""
        names, whose = self._names, router or self._router
        return Call(
            "close",
            (names.queues, names.rows, names.session(whose), names.sessions),
            (whose, "" if router else self._incarnation),
        )

    def sums(self) -> list[Entry]:
        """What is booked, per slot and generation."""
        found: dict[tuple[int, float], list[int]] = {}
        for entry in (held.load() for held in self._open.values()):
            row = found.setdefault((entry.slot, entry.gen), [0, 0, 0, 0])
            row[0] += entry.us
            row[1] += entry.outstanding
            row[2] += entry.tokens
            row[3] += entry.blocks
        return [Entry(slot, gen, *row) for (slot, gen), row in found.items()]

    # -- bookings

    def route_call(
        self,
        prompt_tokens: int,
        candidates: Sequence[Candidate],
        *,
        tokens: int | None,
        blocks: int,
        random: int,
    ) -> Call:
        """Choose and book in one step. `random`: 31 bits, picks among equals."""
        names = self._names
        keys = (names.queues, names.rows, names.weights, names.session(self._router))
        head = (self._incarnation, self._next(), prompt_tokens, random)
        asked = -1 if tokens is None else tokens
        return Call("route", keys, (*head, pack_candidates(candidates), asked, blocks))

    def booked(self, reply: Booked, *, blocks: int, deadline: float) -> Booking:
        """Takes over what Redis booked."""
        return self._hold(
            Booking(
                number=next(self._numbers),
                slot=reply.slot,
                epoch=reply.epoch,
                gen=reply.gen,
                prefill_us=reply.us,
                cost_ms=reply.cost_ms,
                kappa=reply.kappa,
                tokens=reply.tokens,
                blocks=blocks,
                deadline=deadline,
            )
        )

    def booked_locally(
        self,
        state: LedgerState,
        chosen: Price,
        *,
        prompt_tokens: int,
        tokens: int | None,
        blocks: int,
        deadline: float,
    ) -> Booking:
        """Books without Redis. If the row's generation still stands when Redis is back, the next
        session counts it.
        """
        slot = chosen.candidate.slot
        load = state.slots[slot]
        miss = prompt_tokens - min(chosen.candidate.hit, prompt_tokens)
        return self._hold(
            Booking(
                number=next(self._numbers),
                slot=slot,
                epoch=load.epoch,
                gen=load.gen,
                prefill_us=int(chosen.prefill_ms * 1000 + 0.5),
                cost_ms=chosen.cost_ms,
                kappa=state.kappa(),
                tokens=miss if tokens is None else tokens,
                blocks=blocks,
                deadline=deadline,
                degraded=True,
            )
        )

    def _hold(self, booking: Booking) -> Booking:
        self._open[booking.number] = _Open(booking)
        return booking

    def first_token(self, booking: Booking) -> bool:
        """The prefill is done; whether that was news."""
        held = self._open.get(booking.number)
        if held is None or not held.waiting:
            return False
        held.waiting = False
        b = booking
        self._entries.append(Entry(b.slot, b.gen, b.prefill_us, 0, b.tokens, 0))
        return True

    def finish(self, booking: Booking, service: ServiceTimes | None = None) -> bool:
        """The end, however it came; whether that was news. Without `service` nothing is learned."""
        held = self._open.pop(booking.number, None)
        if held is None:
            return False
        self._entries.append(held.load())
        if service is not None:
            self._observe(booking, service)
        return True

    def _observe(self, booking: Booking, s: ServiceTimes) -> None:
        seen = Observation(
            slot=booking.slot,
            epoch=booking.epoch,
            hit=s.hit,
            miss=s.miss,
            prefill_ms=s.prefill_ms,
            batch_size=s.batch_size,
            step_ms=s.step_ms,
            output_tokens=s.output_tokens,
        )
        if seen.is_sane():
            self._observations.append(seen)
            del self._observations[:-MAX_OBSERVATIONS]

    def expire(self, now: float, *, at_beat: bool = False) -> list[Booking]:
        """Finishes bookings past their deadline: looks at a few per call, in rotation, so that work
        stays bounded.
        """
        late = []
        looked = _EXPIRE_AT_BEAT if at_beat else _EXPIRE_AT_ROUTE
        for number in list(islice(self._open, looked)):
            held = self._open.pop(number)
            self._open[number] = held
            if held.booking.deadline < now:
                self.finish(held.booking)
                late.append(held.booking)
        return late

    def settle_call(self) -> Call:
        """Tells everything pending; the connection must send it, or begin a new session."""
        names = self._names
        keys = (names.queues, names.rows, names.weights, names.covariances)
        entries, observations = pack_entries(self._entries), pack_observations(self._observations)
        self._entries.clear()
        self._observations.clear()
        return Call(
            "settle",
            (*keys, names.session(self._router)),
            (self._incarnation, self._next(), entries, observations),
        )

    def forget_entries(self) -> None:
        """Only before a new session, whose absolute state contains them."""
        self._entries.clear()

    def check(self) -> None:
        """Raises AssertionError if an invariant is broken."""
        for number, held in self._open.items():
            assert number == held.booking.number, "a booking is filed under another number"
        assert all(entry.us >= 0 and entry.outstanding > 0 for entry in self.sums())
        assert len(self._observations) <= MAX_OBSERVATIONS
