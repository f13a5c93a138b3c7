"""The load ledger as a router uses it: choose and book in one call, settle without waiting.

Redis decides; while it is away `book_local` decides by what this router knows itself (its own
bookings, the weights last seen), and those bookings are settled in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from redis.exceptions import ResponseError

from cache_index import functions, tasks
from cache_index.base import RouterId
from cache_index.commands import FAILURES, close
from cache_index.connection import OrderedConnection, Send
from cache_index.costs import Candidate, LedgerState, cheapest, price
from cache_index.functions import Call
from cache_index.ledger import Booking, NoCandidate, ServiceTimes, Session
from cache_index.ledger_codec import unpack_booked, unpack_state
from cache_index.local_state import all_alive, local_state
from cache_index.names import Names
from cache_index.redis_url import client_from_url
from cache_index.weights import reset_weights
from kvroute.errors import Unavailable

PEEK_AGE_S = 0.02
"""A peek may be this old."""
BEATS_PER_TTL = 3
REFUSALS = (b"FENCED", b"DUP", b"GAP")

_log = structlog.get_logger(__name__)


class LedgerClient:
    """One per router and model; one event loop. `await start()`, `await stop()`."""

    def __init__(
        self,
        redis_url: str,
        served_name: str,
        router_id: RouterId,
        *,
        session_ttl_s: float = 1.5,
        seed: int | None = None,
    ) -> None:
        """`session_ttl_s`: bookings of a router that died vanish after this. `seed`: for ties."""
        names = Names.of(served_name)
        self._served_name = served_name
        self._names = names
        self._client = client_from_url(redis_url)
        self._session = Session(names, router_id, session_ttl_s)
        self._connection = OrderedConnection(self._client, names.queues, self._open)
        self._beat_s = session_ttl_s / BEATS_PER_TTL
        self._random = random.Random(seed)
        self._settling = False
        self._task: asyncio.Task[None] | None = None
        self._peeked = LedgerState()
        self._peeked_at = float("-inf")
        self._peeking: asyncio.Future[LedgerState] | None = None

    @property
    def available(self) -> bool:
        """The session stands. False: `book` will most likely raise Unavailable."""
        return self._connection.available

    @property
    def open_bookings(self) -> int:
        return self._session.open_bookings

    @property
    def sessions(self) -> int:
        """Sessions begun: grows with every reconnect."""
        return self._connection.connects

    async def start(self) -> None:
        """Opens the session if Redis answers; keeps trying if not."""
        with contextlib.suppress(Unavailable):
            await self._beat()
        self._task = asyncio.create_task(self._run(), name="ledger-beat")

    async def stop(self) -> None:
        """Closes the session: whatever was still booked is gone at once."""
        task, self._task = self._task, None
        await tasks.end(task)
        if self._connection.available:
            with contextlib.suppress(Unavailable, *FAILURES):
                await self._connection.call(self._session.close_call)
        await self._connection.close()
        await close(self._client)

    # -- bookings

    async def book(
        self,
        prompt_tokens: int,
        candidates: Sequence[Candidate],
        *,
        tokens: int | None = None,
        blocks: int = 0,
        deadline_s: float = 600.0,
    ) -> Booking:
        """Chooses the cheapest candidate and books it, atomically for all routers.

        `tokens`: to book until the first token (None: the chosen candidate's missing tokens);
        `blocks`: until the end. The booking ends by itself after `deadline_s`. Raises NoCandidate
        when no candidate's slot is alive, Unavailable when Redis does not answer. Compare the
        booking's epoch with the worker's: when they differ the slot has changed hands.
        """
        if self._session.expire(time.monotonic()):
            self._settle()

        def build() -> Call:
            return self._session.route_call(
                prompt_tokens,
                candidates,
                tokens=tokens,
                blocks=blocks,
                random=self._random.getrandbits(31),
            )

        def sink(reply: Any, wanted: bool) -> Any:
            booked = unpack_booked(reply) if isinstance(reply, bytes) else None
            if booked is None:
                return self._judge(reply)
            deadline = time.monotonic() + deadline_s
            booking = self._session.booked(booked, blocks=blocks, deadline=deadline)
            if not wanted:
                self.finish(booking)
            return booking

        for _ in range(2):
            reply = await self._answer(self._connection.call(build, sink))
            if isinstance(reply, Booking):
                return reply
            if reply == b"NOCAND":
                raise NoCandidate("no candidate is alive in the ledger")
            # A refusal booked nothing, so that one more try, in a new session, is safe.
        raise Unavailable(f"the ledger in Redis refuses this session: {reply!r}")

    async def _answer(self, future: asyncio.Future[Any]) -> Any:
        try:
            return await future
        except asyncio.CancelledError:
            # The reply may be in already, unseen: nobody else would end that booking.
            if future.done() and not future.cancelled() and future.exception() is None:
                reply = future.result()
                if isinstance(reply, Booking):
                    self.finish(reply)
            raise

    def book_local(
        self,
        prompt_tokens: int,
        candidates: Sequence[Candidate],
        *,
        tokens: int | None = None,
        blocks: int = 0,
        deadline_s: float = 600.0,
    ) -> Booking:
        """The same by local knowledge, at once, marked `degraded`. Raises NoCandidate without
        candidates.
        """
        state = all_alive(self.local_state(), self._session.sums(), candidates)
        chosen = cheapest(price(state, prompt_tokens, candidates), self._random.getrandbits(31))
        if chosen is None:
            raise NoCandidate("there is no candidate")
        return self._session.booked_locally(
            state,
            chosen,
            prompt_tokens=prompt_tokens,
            tokens=tokens,
            blocks=blocks,
            deadline=time.monotonic() + deadline_s,
        )

    def first_token(self, booking: Booking) -> None:
        """Takes the prefill off the ledger. Never waits; idempotent."""
        if self._session.first_token(booking):
            self._settle()

    def finish(self, booking: Booking, service: ServiceTimes | None = None) -> bool:
        """Takes the rest off the ledger, and teaches it. For every end: error, cancel, deadline
        too. Idempotent: whether this call ended the booking.
        """
        ended = self._session.finish(booking, service)
        if ended:
            self._settle()
        return ended

    def _settle(self) -> None:
        """One settlement per turn of the event loop carries all that happened in it."""
        if not self._settling:
            self._settling = True
            future = self._connection.call(self._build_settle, lambda reply, _: self._judge(reply))
            future.add_done_callback(self._settled)

    def _build_settle(self) -> Call:
        self._settling = False
        return self._session.settle_call()

    def _settled(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            # The next session's absolute state says it all; nothing may pile up until then.
            self._settling = False
            self._session.forget_entries()
            self._connection.renew()

    # -- state

    async def peek(self) -> LedgerState:
        """All rows, at most 20 ms old; changes nothing. Raises Unavailable."""
        if time.monotonic() - self._peeked_at <= PEEK_AGE_S:
            return self._peeked
        if self._peeking is None:
            names = self._names
            keys = (names.queues, names.rows, names.weights, names.sessions)
            self._peeking = self._connection.call(lambda: Call("peek", keys), self._seen)
            self._peeking.add_done_callback(self._peek_done)
        return await asyncio.shield(self._peeking)

    def _seen(self, reply: Any, wanted: bool) -> Any:
        if isinstance(reply, Exception):
            return self._judge(reply)
        self._peeked, self._peeked_at = unpack_state(reply), time.monotonic()
        return self._peeked

    def _peek_done(self, future: asyncio.Future[LedgerState]) -> None:
        self._peeking = None
        if not future.cancelled():
            future.exception()  # Mark it as seen: the waiters have it too.

    async def reset_weights(self) -> int:
        """Forgets all that was learned of this model's workers, for all routers; how many rows that
        were. Raises what redis-py raises.
        """
        self._peeked_at = float("-inf")
        return await reset_weights(self._client, self._served_name)

    def local_state(self) -> LedgerState:
        """Rows and weights as last peeked, with the load of this router's own bookings only."""
        return local_state(self._peeked, self._session.sums())

    # -- the session

    async def _open(self, send: Send) -> None:
        """First on every new connection: libraries, then this router's absolute state."""
        try:
            incarnation = await send(self._session.open_call())
        except ResponseError as error:
            if not functions.is_missing(error):
                raise
            await functions.load(self._client)
            incarnation = await send(self._session.open_call())
        self._session.opened(incarnation)
        self._settling = False

    def _judge(self, reply: Any) -> Any:
        """A refusal or an error means doubt: begin a new session."""
        if reply in REFUSALS or isinstance(reply, Exception):
            _log.info("ledger_session_renewed", reason=str(reply))
            self._connection.renew()
            if isinstance(reply, Exception):
                return Unavailable(f"the ledger in Redis answers with an error: {reply}")
        return reply

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._beat_s)
            with contextlib.suppress(Unavailable):
                await self._beat()

    async def _beat(self) -> None:
        """Keeps the session alive, notices a rollback within a beat, and closes sessions that ran
        out.
        """
        if self._session.expire(time.monotonic(), at_beat=True):
            self._settle()
        reply = await self._connection.call(
            self._session.beat_call, lambda found, _: self._judge(found)
        )
        for router in reply if isinstance(reply, list) else ():
            close = partial(self._session.close_call, RouterId(router.decode()))
            await self._connection.call(close)
