"""Reading from Redis what the stream no longer tells: one worker's blocks, and where all workers
stand.

Why a scan without a lock is exact: the worker's sequence number s is read before the scan, and
every delta after s is applied after it, in order and idempotently. A block that did not change
since s is returned by the scan; one that did is settled by its last delta. The epoch is read again
behind the scan: had it changed, the scan could mix two caches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cache_index.base import Epoch, IndexKey, WorkerId
from cache_index.commands import RedisClient, execute, hash_all, hash_get, set_scan, stream_entry
from cache_index.fleet import WorkerRecord
from cache_index.functions import Call, call
from cache_index.names import Names
from cache_index.replica import Mark, Replica, Side

SCAN_COUNT = 2000
ATTEMPTS = 5
ROW_BYTES = 48
"""Size of a row of R (lua/ledger_rows.lua); it begins with the worker's epoch."""
MARK_FIELDS = 5
"""Of a mark that are always there; what the worker says of itself follows."""


def position(entry_id: str) -> tuple[int, int]:
    """A stream entry's id as numbers that compare in order."""
    milliseconds, number = entry_id.split("-")
    return int(milliseconds), int(number)


def _mark(values: Sequence[bytes | None]) -> Mark | None:
    if len(values) != MARK_FIELDS + 1 or None in values[:MARK_FIELDS]:
        return None
    try:
        epoch, seq, beats, count, digest = (int(value or 0) for value in values[:MARK_FIELDS])
        own = Side(*(int(part) for part in values[-1].split())) if values[-1] else None
    except (TypeError, ValueError):
        return None
    return Mark(Epoch(epoch), seq, beats, count, digest, own)


@dataclass(frozen=True, slots=True)
class Standing:
    """One moment of a model's keys. `newest`: position of the last event. `rows`: the ledger's R
    column.
    """

    generation: bytes
    newest: tuple[int, int]
    registry: dict[WorkerId, WorkerRecord]
    rows: bytes

    def orphans(self) -> list[tuple[int, Epoch]]:
        """Ledger rows (slot, epoch) of workers that are no longer registered: left by a reaper that
        died.
        """
        owned = {(record.slot, record.epoch) for record in self.registry.values()}
        rows = [
            (slot, Epoch(int(struct.unpack_from("<d", self.rows, slot * ROW_BYTES)[0])))
            for slot in range(len(self.rows) // ROW_BYTES)
        ]
        return [(slot, epoch) for slot, epoch in rows if epoch and (slot, epoch) not in owned]


class Snapshots:
    """All reads of one model. Raises what redis-py raises."""

    def __init__(self, client: RedisClient, names: Names) -> None:
        self._client = client
        self._names = names

    async def cursor(self) -> str:
        """Id of the newest event; "0-0" without any."""
        events = self._names.events
        newest = await execute(self._client, "XREVRANGE", events, "+", "-", "COUNT", 1)
        return stream_entry(newest[0]).entry_id if newest else "0-0"

    async def registry(self) -> dict[WorkerId, WorkerRecord]:
        """All registered workers; malformed values are left out."""
        return parse_registry(await hash_all(self._client, self._names.registry))

    async def standing(self) -> Standing:
        """Everything an audit compares, as of one moment."""
        names = self._names
        keys = (names.generation, names.events, names.registry, names.rows)
        generation, newest, flat, rows = await call(self._client, Call("standing", keys))
        return Standing(
            generation=generation,
            newest=position(newest.decode()),
            registry=parse_registry(dict(zip(flat[::2], flat[1::2], strict=True))),
            rows=rows,
        )

    async def marks(self, workers: Iterable[WorkerId]) -> dict[WorkerId, Mark | None]:
        """Where each worker stands; None: its lease ran out."""
        asked = list(workers)
        if not asked:
            return {}
        keys = [self._names.meta(worker) for worker in asked]
        replies = await call(self._client, Call("marks", keys))
        return {worker: _mark(reply) for worker, reply in zip(asked, replies, strict=True)}

    async def mark(self, worker: WorkerId) -> Mark | None:
        return (await self.marks([worker]))[worker]

    async def load(self, replica: Replica, worker: WorkerId) -> bool:
        """Replaces a worker's blocks by its snapshot; drops it if its lease ran out. Whether it is
        known now.
        """
        for _ in range(ATTEMPTS):
            mark = await self.mark(worker)
            value = await hash_get(self._client, self._names.registry, worker)
            if mark is None or value is None:
                break
            try:
                record = WorkerRecord.from_json(worker, value, seq=mark.seq)
            except ValueError:
                break
            if record.epoch != mark.epoch:
                continue
            replica.begin(record)
            if await self._scan(replica, worker) and await self._epoch(worker) == mark.epoch:
                return True
        replica.drop(worker)
        return False

    async def _epoch(self, worker: WorkerId) -> Epoch | None:
        found = await hash_get(self._client, self._names.meta(worker), "e")
        return Epoch(int(found)) if found else None

    async def _scan(self, replica: Replica, worker: WorkerId) -> bool:
        """Reads the set in pieces: the event loop and Redis serve others in between."""
        cursor, key = 0, self._names.blocks(worker)
        while True:
            cursor, members = await set_scan(self._client, key, cursor, SCAN_COUNT)
            if any(len(member) != 8 for member in members):
                return False
            joined = b"".join(members)
            keys: tuple[IndexKey, ...] = struct.unpack(f"<{len(members)}Q", joined)
            replica.view.store(worker, keys)
            if not cursor:
                return True


def parse_registry(found: Mapping[bytes, bytes]) -> dict[WorkerId, WorkerRecord]:
    """Registered workers; malformed values are left out."""
    records = {}
    for name, value in found.items():
        try:
            worker = WorkerId(name.decode())
            records[worker] = WorkerRecord.from_json(worker, value)
        except ValueError:
            continue
    return records
