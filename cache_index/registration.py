"""A worker's link to the control plane: registers, publishes its blocks, keeps its lease.

One task does it all in order, so that one call is in flight at a time. Its only way to recover is
to register anew (a new epoch) and say everything again: after FENCED (declared dead, or replaced),
GAP (Redis was rolled back or cut) or the loss of Redis' data. While Redis does not answer, changes
coalesce in the publisher and the worker goes on serving.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import structlog
from redis.exceptions import NoPermissionError

from cache_index import functions, tasks
from cache_index.base import BlockKey, Epoch, WorkerId
from cache_index.commands import FAILURES, close, hash_all, hash_set, hash_set_if_missing
from cache_index.fleet import WorkerDescription, WorkerRecord
from cache_index.identity import FieldDifference
from cache_index.index_calls import IndexCalls
from cache_index.keys import index_keys
from cache_index.models import forget_if_empty
from cache_index.names import MODELS, Names
from cache_index.publisher import Publisher
from cache_index.redis_url import check_server, client_from_url, masked
from kvroute.errors import Mismatch, StartError

FULL_BATCH = 256
"""Keys that are published at once, without waiting for `flush_s`."""
BACKOFF_S = (0.05, 1.0)
"""First and longest pause between attempts while Redis does not answer."""
_FLOOR_STEP = 1_000_000

_log = structlog.get_logger(__name__)


class CacheDelta(Protocol):
    """What one step did to a cache: `stored` parents first, `removed` children first."""

    @property
    def stored(self) -> Sequence[BlockKey]: ...
    @property
    def removed(self) -> Sequence[BlockKey]: ...
    @property
    def flushed(self) -> bool: ...


class _Refused(Exception):
    """Redis no longer knows this epoch, or not its last sequence number: register anew."""


class Registration:
    """`await start()`, `note` every delta, `withdraw` and `stop` at the end. One event loop."""

    def __init__(
        self,
        redis_url: str,
        *,
        worker: WorkerDescription,
        lease_s: float = 3.0,
        flush_s: float = 0.015,
    ) -> None:
        self._url = redis_url
        self._worker = worker
        self._lease_ms = max(1, round(lease_s * 1000))
        self._beat_s = lease_s / 3
        self._flush_s = flush_s
        names = Names.of(worker.identity.served_name, worker.identity.key_scheme)
        self._names = names
        self._calls = IndexCalls(names)
        # A call that takes longer than a beat is given up, or the lease runs out behind its back.
        self._client = client_from_url(redis_url, timeout_s=min(1.0, max(0.1, self._beat_s)))
        self._publisher = Publisher()
        self._load = (0, 0)
        self._described = True
        self._floor = 0
        self._wake = asyncio.Event()
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._registered = False
        self._next_beat = 0.0
        self.slot = -1
        """Row in the ledger; the registry keeps it for this worker while it is registered."""
        self.connected = False
        """The last attempt reached Redis and this epoch stands."""
        self.registrations = 0

    @property
    def epoch(self) -> Epoch:
        """0 before the first registration."""
        return self._publisher.epoch or Epoch(0)

    @property
    def synced(self) -> bool:
        """Redis holds exactly this worker's blocks."""
        return self._registered and self._publisher.idle

    @property
    def blocks(self) -> int:
        return len(self._publisher.truth)

    # -- from the engine, synchronous

    def note(self, delta: CacheDelta) -> None:
        """Takes over one step's changes. Never blocks; bounded by the size of the cache."""
        publisher = self._publisher
        if delta.flushed:
            publisher.flush()
        publisher.remove(index_keys(delta.removed))
        publisher.store(index_keys(delta.stored))
        if publisher.pending:
            self._wake.set()
            if publisher.pending >= FULL_BATCH:
                self._full.set()

    def report_load(self, queued_us: int, running: int) -> None:
        """Prefill received but not started (microseconds), and requests running or waiting; sent
        with the next beat.
        """
        self._load = (queued_us, running)

    def set_draining(self, draining: bool) -> None:
        if draining != self._worker.draining:
            self.describe(replace(self._worker, draining=draining))

    def describe(self, worker: WorkerDescription) -> None:
        """Replaces what the registry says (adapters, draining); identity and id must stay."""
        self._worker, self._described = worker, False
        self._wake.set()
        self._full.set()

    # -- life

    async def start(self) -> None:
        """Registers; waits for Redis as long as it takes. Raises Mismatch naming the field and both
        values when this worker does not fit the fleet, StartError when the server is too old or
        refuses the user.
        """
        pause = BACKOFF_S[0]
        while not self._registered:
            try:
                await check_server(self._client, self._url)
                await self._register()
            except NoPermissionError as error:
                raise StartError(
                    f"Redis at {masked(self._url)} denies a right: {error}; see the ACL rules"
                ) from error
            except (*FAILURES, StartError) as error:
                if isinstance(error, StartError) and not _is_away(error):
                    raise
                _log.warning("redis_away", error=str(error))
                await asyncio.sleep(pause)
                pause = min(BACKOFF_S[1], pause * 2)
        self.connected = True
        self._task = asyncio.create_task(self._run(), name="registration")

    async def withdraw(self) -> None:
        """Leaves the fleet at once: routers see it with their next event. Best effort; the lease
        does the rest.
        """
        await self._cancel()
        if self._registered:
            self._registered = self.connected = False
            with contextlib.suppress(*FAILURES):
                await self._call(self._calls.withdraw(self._worker.worker_id, self.epoch))
                await self._call(self._calls.leave(self.slot, self.epoch))
                await forget_if_empty(self._client, self._names, self._worker.identity.served_name)

    async def stop(self) -> None:
        """Ends all work. Without `withdraw` the fleet keeps the worker until its lease runs out."""
        await self._cancel()
        self.connected = False
        await close(self._client)

    async def _cancel(self) -> None:
        task, self._task = self._task, None
        await tasks.end(task)

    # -- the task

    async def _run(self) -> None:
        pause = BACKOFF_S[0]
        while True:
            try:
                await self._turn()
                self.connected, pause = True, BACKOFF_S[0]
                await self._until_due()
            except _Refused:
                self._registered = False
            except (*FAILURES, Mismatch) as error:
                # A mismatch here: the fleet changed while we were away. It may pass by itself.
                if self.connected:
                    _log.warning("control_plane_lost", error=str(error))
                self.connected = False
                await asyncio.sleep(pause)
                pause = min(BACKOFF_S[1], pause * 2)

    async def _turn(self) -> None:
        if not self._registered:
            await self._register()
        await self._publish()
        if not self._described:
            await self._describe()
        if asyncio.get_running_loop().time() >= self._next_beat:
            await self._beat()

    async def _until_due(self) -> None:
        """Until the next beat, or `flush_s` (at most) after something changed."""
        left = self._next_beat - asyncio.get_running_loop().time()
        # Not wait_for: in Python 3.11 it swallows a cancellation that meets the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, left)):
                await self._wake.wait()
            async with asyncio.timeout(self._flush_s):
                await self._full.wait()
        self._wake.clear()
        self._full.clear()

    async def _call(self, call: functions.Call) -> object:
        return await functions.call(self._client, call)

    async def _register(self) -> None:
        worker, before = self._worker, self.slot
        reply = await self._try_register(worker)
        if reply[0] == b"MISMATCH":
            await self._reap_expired()
            reply = await self._try_register(worker)
        if reply[0] == b"MISMATCH":
            field, theirs, ours, other = (part.decode() for part in reply[1:5])
            raise FieldDifference(field, ours, theirs).error(f"worker {other}")
        epoch, self.slot = Epoch(int(reply[1])), int(reply[2])
        self._publisher.registered(epoch)
        self._described = worker is self._worker
        self._registered = True
        self._next_beat = 0.0
        self.registrations += 1
        await hash_set(self._client, MODELS, worker.identity.served_name, self._names.tag)
        await self._join(keep_weights=self.slot == before)
        _log.info("registered", worker=worker.worker_id, epoch=epoch, slot=self.slot)

    async def _try_register(self, worker: WorkerDescription) -> Sequence[bytes]:
        reply = await self._call(self._calls.register(worker, self._lease_ms, self._floor))
        assert isinstance(reply, list)
        return reply

    async def _reap_expired(self) -> None:
        """Removes workers whose lease ran out: with no router alive nobody else would, and a dead
        fleet must not keep a new one out.
        """
        for name, value in (await hash_all(self._client, self._names.registry)).items():
            worker = WorkerId(name.decode())
            with contextlib.suppress(ValueError):
                epoch = WorkerRecord.from_json(worker, value).epoch
                await self._call(self._calls.reap(worker, epoch))

    async def _join(self, *, keep_weights: bool) -> None:
        joined = await self._call(
            self._calls.join(self.slot, self.epoch, keep_weights=keep_weights)
        )
        if joined != b"OK":
            # The row knows a later epoch: the server's clock went back. Leap over it.
            self._floor = max(self._floor, self.epoch) + _FLOOR_STEP
            raise _Refused

    async def _publish(self) -> None:
        publisher, worker = self._publisher, self._worker.worker_id
        while (batch := publisher.next_batch()) is not None:
            reply = await self._call(self._calls.publish(worker, self.epoch, batch, self._lease_ms))
            if batch.flush:
                if not (isinstance(reply, list) and reply[0] == b"OK"):
                    raise _Refused
                publisher.flushed(Epoch(int(reply[1])))
            elif reply in (b"OK", b"DUP"):
                publisher.confirmed()
            else:
                raise _Refused

    async def _describe(self) -> None:
        worker = self._worker
        if await self._call(self._calls.update(worker, self.epoch)) != b"OK":
            raise _Refused
        self._described = worker is self._worker

    async def _beat(self) -> None:
        worker, publisher = self._worker.worker_id, self._publisher
        call = self._calls.beat(worker, self.epoch, publisher.seq, self._lease_ms, publisher.own())
        if await self._call(call) != b"OK":
            raise _Refused
        queued_us, running = self._load
        reply = await self._call(self._calls.wbeat(self.slot, self.epoch, queued_us, running))
        if reply == b"FENCED":
            await self._join(keep_weights=True)
        # Its slot may have been lost without ours, or another worker's farewell crossed our coming.
        name = self._worker.identity.served_name
        await hash_set_if_missing(self._client, MODELS, name, self._names.tag)
        self._next_beat = asyncio.get_running_loop().time() + self._beat_s


def _is_away(error: StartError) -> bool:
    """Whether the server did not answer at all, as against one that is too old or refuses us."""
    cause = error.__cause__
    return isinstance(cause, FAILURES) and "does not answer" in str(error)
