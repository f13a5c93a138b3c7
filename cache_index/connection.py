"""Many calls, few writes: pipelines without asking, on ONE ordered connection.

Calls made while a batch is in flight, or in the same turn of the event loop, leave as one write. A
call waits at most two round trips, and nobody is overtaken. redis-py makes the connection (TLS,
authentication, Sentinel); its retries are not used: after a write the outcome is unknown, and only
the owner knows how to go on (the ledger begins a new session).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import MovedError, ResponseError

from cache_index import tasks
from cache_index.breaker import Breaker
from cache_index.commands import FAILURES, RedisClient
from cache_index.functions import Call
from cache_index.patience import Patience
from cache_index.redis_url import dedicated_connection
from kvroute.errors import Unavailable

TIMEOUT_S = 0.1
"""For a batch; 20 ms proved too nervous for a Python event loop."""
CONNECT_S = 0.5
MAX_BATCH = 256
MAX_QUEUE = 8192
"""Calls waiting; more are refused."""

Send = Callable[[Call], Awaitable[Any]]


@dataclass(slots=True)
class _Waiting:
    build: Callable[[], Call]
    sink: Callable[[Any, bool], Any]
    future: asyncio.Future[Any]


def _as_is(reply: Any, wanted: bool) -> Any:
    return reply


def _pack(call: Call) -> bytes:
    return cast(bytes, hiredis.pack_command(cast(Any, call.command())))


async def _read(connection: AbstractConnection) -> Any:
    """The next reply. The batch has one time-out in all: redis-py's own, per reply, would cost more
    than the reading.
    """
    return await connection.read_response(timeout=math.inf, disconnect_on_error=False)


class OrderedConnection:
    """`call(build)` -> future. `build` makes the arguments when the batch is written, in wire
    order.

    `sink(reply, wanted)` runs for every reply, even if the caller has gone (`wanted` False), and
    makes the future's result. `on_connect(send)` runs first on each new connection; its failure is
    the connection's failure. Errors: Unavailable, when the outcome is unknown or nothing was sent;
    redis-py's ResponseError, when the server answered with an error.
    """

    def __init__(
        self,
        client: RedisClient,
        key: str,
        on_connect: Callable[[Send], Awaitable[None]],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`key`: any key of the calls; all of them must live in one Cluster slot."""
        self._client = client
        self._key = key
        self._moved = False
        self._on_connect = on_connect
        self._timeout_s = timeout_s
        self._queue: deque[_Waiting] = deque()
        self._connection: AbstractConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._breaker = Breaker()
        self._renew = False
        self._closed = False
        self.connects = 0

    @property
    def available(self) -> bool:
        """Connected, and not in doubt."""
        return self._connection is not None and not self._renew

    def call(
        self, build: Callable[[], Call], sink: Callable[[Any, bool], Any] = _as_is
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._closed or self._breaker.is_open(loop.time()) or len(self._queue) >= MAX_QUEUE:
            future.set_exception(Unavailable("the ledger in Redis is not reachable"))
            return future
        self._queue.append(_Waiting(build, sink, future))
        if self._task is None:
            self._task = loop.create_task(self._run(), name="ordered-connection")
        return future

    def renew(self) -> None:
        """In doubt: the next batch goes out on a new connection."""
        self._renew = True

    async def close(self) -> None:
        self._closed = True
        task, self._task = self._task, None
        await tasks.end(task)
        await self._drop()

    # -- the writer

    async def _run(self) -> None:
        """Sends until nothing waits. Any failure fails all that wait: they are stale by now."""
        batch: list[_Waiting] = []
        try:
            while self._queue:
                if self._renew:
                    await self._drop()
                if self._connection is None:
                    async with Patience(CONNECT_S):
                        await self._connect()
                batch = self._take()
                if batch:
                    async with Patience(self._timeout_s):
                        await self._exchange(batch)
                batch = []
            self._breaker.healed()
        except FAILURES as error:  # TimeoutError is an OSError.
            self._breaker.tripped(asyncio.get_running_loop().time())
            await self._fail(batch, f"the ledger in Redis does not answer: {error!r}")
        except asyncio.CancelledError:
            await self._fail(batch, "the ledger's connection was closed")
            raise
        finally:
            self._task = None

    def _take(self) -> list[_Waiting]:
        """The next calls in order; those whose caller has gone are not sent."""
        taken: list[_Waiting] = []
        while self._queue and len(taken) < MAX_BATCH:
            waiting = self._queue.popleft()
            if not waiting.future.done():
                taken.append(waiting)
        return taken

    async def _exchange(self, batch: list[_Waiting]) -> None:
        connection = self._connection
        assert connection is not None
        packed = [_pack(waiting.build()) for waiting in batch]
        await connection.send_packed_command([b"".join(packed)], check_health=False)
        for waiting in batch:
            try:
                reply = await _read(connection)
            except MovedError:
                self._moved = True
                raise
            except ResponseError as error:
                reply = error
            reply = waiting.sink(reply, not waiting.future.done())
            if waiting.future.done():
                continue
            if isinstance(reply, Exception):
                waiting.future.set_exception(reply)
            else:
                waiting.future.set_result(reply)

    async def _connect(self) -> None:
        connection = await dedicated_connection(self._client, self._key, moved=self._moved)
        self._moved = False
        self._connection, self._renew = connection, False
        await cast(Any, connection).connect()

        async def send(call: Call) -> Any:
            packed = _pack(call)
            await connection.send_packed_command([packed], check_health=False)
            return await _read(connection)

        try:
            await self._on_connect(send)
        except MovedError:
            self._moved = True
            raise
        self.connects += 1

    async def _fail(self, batch: list[_Waiting], reason: str) -> None:
        lost = batch + list(self._queue)
        self._queue.clear()
        for waiting in lost:
            if not waiting.future.done():
                waiting.future.set_exception(Unavailable(reason))
        await self._drop()

    async def _drop(self) -> None:
        """Aborts: nothing half-sent may be executed later than necessary. A late one is fenced by
        the session.
        """
        connection, self._connection, self._renew = self._connection, None, False
        if connection is None:
            return
        writer = getattr(connection, "_writer", None)
        if writer is not None:
            writer.transport.abort()
        with contextlib.suppress(*FAILURES):
            await connection.disconnect(nowait=True)
