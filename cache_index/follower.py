"""Keeps a router's copy of the fleet equal to the workers' truth: bootstrap, follow, audit.

One task does everything in order: read the next events and apply them; when something was missed,
read that worker's snapshot; every `audit_s` compare each worker's (epoch, sequence, digest) with
Redis, remove those whose lease ran out, and start over if Redis lost data. While Redis does not
answer, the copy is served as it was (`stale`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

import structlog

from cache_index import functions, tasks
from cache_index.audit import Audit, WorkerComparison
from cache_index.base import WorkerId
from cache_index.commands import (
    FAILURES,
    close,
    get,
    set_if_missing,
    stream_read,
)
from cache_index.events import Delta, Gone, parse
from cache_index.fleet import WorkerRecord
from cache_index.index_calls import IndexCalls
from cache_index.models import forget_if_empty
from cache_index.names import Names
from cache_index.redis_url import client_from_url
from cache_index.replica import Outcome, Replica, Side
from cache_index.snapshots import Snapshots, position
from cache_index.view import IndexView

READ_COUNT = 200
"""Events read at once."""
YIELD_KEYS = 2000
"""Keys applied before others get the event loop."""
BLOCK_S = 0.1
"""Longest wait for events in one read."""
RETRY_S = (0.02, 0.5)

_log = structlog.get_logger(__name__)


class Follower:
    """`await start()`; wait for `ready` once; then `view.match` and `workers` at any time."""

    def __init__(
        self,
        redis_url: str,
        served_name: str,
        *,
        lease_s: float = 3.0,
        audit_s: float = 1.0,
        on_change: Callable[[], None] = lambda: None,
        max_blocks: int = 8_000_000,
    ) -> None:
        """`on_change` is called when workers came, went or changed their description (not for
        blocks).
        """
        names = Names.of(served_name)
        timeout_s = min(1.0, max(4 * BLOCK_S, lease_s))
        self._names = names
        self._served_name = served_name
        self._client = client_from_url(redis_url, timeout_s=timeout_s)
        self._snapshots = Snapshots(self._client, names)
        self._calls = IndexCalls(names)
        self._replica = Replica(IndexView(max_blocks))
        self._on_change = on_change
        self._seen_version = 0
        self._audit_s = audit_s
        self._lease_s = lease_s
        self._cursor = "0-0"
        self._generation = b""
        self._next_audit = 0.0
        self._audit = Audit(self._replica)
        self._task: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()
        """The view was complete once."""
        self.stale = True
        """Redis does not answer: the view is what it was."""
        self.resyncs = 0
        self.gaps = 0
        self.dups = 0
        self.malformed = 0
        self.bootstraps = 0

    @property
    def view(self) -> IndexView:
        return self._replica.view

    @property
    def workers(self) -> dict[WorkerId, WorkerRecord]:
        return self._replica.workers

    async def start(self) -> None:
        """Begins to follow; returns at once."""
        self._task = asyncio.create_task(self._run(), name="follower")

    async def stop(self) -> None:
        task, self._task = self._task, None
        await tasks.end(task)
        self.stale = True
        await close(self._client)

    def drop(self, worker: WorkerId) -> None:
        """Forgets a worker that the caller saw die. Its next event, or a beat seen by an audit,
        brings it back.
        """
        if self._replica.drop(worker):
            self._audit.suspect(worker)
            self._tell()

    def check(self) -> None:
        """Raises AssertionError if an invariant is broken. Scans the view."""
        self._replica.check()

    async def compare(self) -> list[WorkerComparison]:
        """This view beside what the workers published last, worker by worker; for `kvroute audit`.

        A worker in motion may differ by the events under way: ask again. Raises what redis-py
        raises.
        """
        standing = await self._snapshots.standing()
        marks = await self._snapshots.marks(self.workers.keys() | standing.registry.keys())
        return [
            WorkerComparison(
                worker=worker,
                ours=self._side(worker),
                published=Side(mark.epoch, mark.seq, mark.count, mark.digest) if mark else None,
                own=mark.own if mark else None,
            )
            for worker, mark in sorted(marks.items())
        ]

    def _side(self, worker: WorkerId) -> Side | None:
        known = self.workers.get(worker)
        if known is None:
            return None
        return Side(known.epoch, known.seq, self.view.count(worker), self.view.digest(worker))

    # -- the task

    async def _run(self) -> None:
        pause = RETRY_S[0]
        while True:
            try:
                await self._turn()
                self.stale, pause = False, RETRY_S[0]
            except FAILURES as error:
                if not self.stale:
                    _log.warning("view_is_stale", error=str(error))
                self.stale = True
                self._next_audit = 0.0  # Whatever it was, look for lost data first.
                await asyncio.sleep(pause)
                pause = min(RETRY_S[1], pause * 2)
            self._tell()

    def _tell(self) -> None:
        if self._replica.version != self._seen_version:
            self._seen_version = self._replica.version
            self._on_change()

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._generation:
            await self._bootstrap()
        if loop.time() >= self._next_audit:
            await self._reconcile()
            self._next_audit = loop.time() + self._audit_s
        left = self._next_audit - loop.time()
        await self._read(block_s=min(BLOCK_S, max(0.001, left)))
        self.view.sweep()

    async def _bootstrap(self) -> None:
        """Reads everything: the cursor first, so that changes made meanwhile are applied
        afterwards.
        """
        client, key = self._client, self._names.generation
        await set_if_missing(client, key, os.urandom(8).hex())
        generation = await get(client, key) or b""
        self._cursor = await self._snapshots.cursor()
        registered = await self._snapshots.registry()
        grace = asyncio.get_running_loop().time() + self._lease_s
        # After a loss of data the workers live on and come back within a beat.
        self._audit.missing({w: grace for w in self.workers if w not in registered})
        for worker in registered:
            await self._snapshots.load(self._replica, worker)
        self._generation = generation
        self.bootstraps += 1
        self.ready.set()

    async def _read(self, block_s: float | None) -> bool:
        """Applies the next events; whether there may be more at once."""
        block = max(1, round(block_s * 1000)) if block_s is not None else None
        entries = await stream_read(
            self._client, self._names.events, self._cursor, READ_COUNT, block
        )
        keys = 0
        for entry in entries:
            keys += await self._apply(entry.fields)
            self._cursor = entry.entry_id
            if keys >= YIELD_KEYS:
                keys = 0
                await asyncio.sleep(0)
        return len(entries) == READ_COUNT

    async def _apply(self, fields: Mapping[bytes, bytes]) -> int:
        """Applies one entry; returns the keys it held."""
        event = parse(fields)
        if event is None:
            if not self.malformed:
                _log.warning("malformed_event", stream=self._names.events)
            self.malformed += 1
            return 0
        outcome = self._replica.apply(event)
        worker = event.worker if isinstance(event, Delta | Gone) else event.record.worker_id
        if outcome is Outcome.APPLIED:
            self._audit.alive(worker)
        elif outcome is Outcome.DUPLICATE:
            self.dups += 1
        else:
            self.gaps += 1
            await self._resync(worker)
        return len(event.added) + len(event.removed) if isinstance(event, Delta) else 0

    async def _resync(self, worker: WorkerId) -> None:
        self.resyncs += 1
        await self._snapshots.load(self._replica, worker)
        self._audit.alive(worker)

    async def _reconcile(self) -> None:
        """Anti-entropy: makes good whatever the events did not say."""
        standing = await self._snapshots.standing()
        if standing.generation != self._generation or standing.newest < position(self._cursor):
            _log.warning("redis_lost_data", stream=self._names.events)
            self._generation = b""
            await self._bootstrap()
            return
        marks = await self._snapshots.marks(self.workers.keys() | standing.registry.keys())
        while await self._read(block_s=None):
            pass
        now = asyncio.get_running_loop().time()
        findings = self._audit.compare(standing.registry, marks, now)
        for worker in findings.resync:
            self.gaps += 1
            await self._resync(worker)
        for record in findings.expired:
            await self._call(self._calls.reap(record.worker_id, record.epoch))
            await self._call(self._calls.leave(record.slot, record.epoch))
        for slot, epoch in standing.orphans():
            await self._call(self._calls.leave(slot, epoch))
        if not standing.registry:
            await forget_if_empty(self._client, self._names, self._served_name)

    async def _call(self, call: functions.Call) -> object:
        return await functions.call(self._client, call)
