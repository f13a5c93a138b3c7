"""The calls of the index library, with every key each of them touches (see lua/index.lua)."""

from __future__ import annotations

from cache_index.base import Epoch, WorkerId
from cache_index.events import DEVICE_TIER, pack_keys
from cache_index.fleet import WorkerDescription
from cache_index.functions import Call
from cache_index.names import MODELS, Names
from cache_index.publisher import Batch, OwnBlocks

STREAM_LENGTH = 2000
"""Entries kept, about: a follower further behind reads snapshots instead. Bounds the stream at
2000 * 2 * 4096 * 8 bytes = 131 MB if every batch were as large as allowed."""


class IndexCalls:
    """Builds the calls of one model."""

    def __init__(self, names: Names, stream_length: int = STREAM_LENGTH) -> None:
        self._names = names
        self._length = stream_length

    def _keys(self, worker: WorkerId) -> tuple[str, str, str, str]:
        names = self._names
        return names.registry, names.meta(worker), names.blocks(worker), names.events

    def register(self, worker: WorkerDescription, lease_ms: int, floor: int) -> Call:
        """`floor`: the new epoch is at least this."""
        return Call(
            "register",
            self._keys(worker.worker_id),
            (worker.worker_id, worker.to_json(), lease_ms, self._length, floor),
        )

    def update(self, worker: WorkerDescription, epoch: Epoch) -> Call:
        registry, meta, _, events = self._keys(worker.worker_id)
        return Call(
            "update",
            (registry, meta, events),
            (worker.worker_id, epoch, worker.to_json(), self._length),
        )

    def publish(self, worker: WorkerId, epoch: Epoch, batch: Batch, lease_ms: int) -> Call:
        """A delta, or the flush that the batch stands for."""
        registry, meta, blocks, events = self._keys(worker)
        head = (worker, epoch, batch.seq, lease_ms, self._length)
        if batch.flush:
            return Call("flush", (registry, meta, blocks, events, self._names.rows), head)
        added, removed = pack_keys(batch.added), pack_keys(batch.removed)
        tail = (added, removed, batch.count, batch.digest, DEVICE_TIER)
        return Call("publish", (meta, blocks, events), (*head, *tail))

    def beat(
        self, worker: WorkerId, epoch: Epoch, seq: int, lease_ms: int, own: OwnBlocks | None = None
    ) -> Call:
        """`own`: what the cache holds as of `seq`, if that is known."""
        tail = ("", "") if own is None else (own.count, own.digest)
        return Call("beat", self._keys(worker)[:3], (worker, epoch, seq, lease_ms, *tail))

    def reap(self, worker: WorkerId, epoch_seen: Epoch) -> Call:
        return Call("reap", self._keys(worker), (worker, epoch_seen, self._length))

    def withdraw(self, worker: WorkerId, epoch: Epoch) -> Call:
        return Call("withdraw", self._keys(worker), (worker, epoch, self._length))

    def forget(self, served_name: str, *, one_server: bool) -> Call:
        """Takes the name out of `MODELS` if no worker is registered. Not `one_server` (a Cluster):
        the caller looked at the registry before.
        """
        registry = (self._names.registry,) if one_server else ()
        return Call("forget", (MODELS, *registry), (served_name, self._names.tag))

    # -- the ledger's calls that belong to a worker's life

    def join(self, slot: int, epoch: Epoch, *, keep_weights: bool) -> Call:
        names = self._names
        keys = (names.queues, names.rows, names.weights, names.covariances, names.idle_beats)
        return Call("join", keys, (slot, epoch, int(keep_weights)))

    def leave(self, slot: int, epoch: Epoch) -> Call:
        names = self._names
        return Call("leave", (names.queues, names.rows, names.idle_beats), (slot, epoch))

    def wbeat(self, slot: int, epoch: Epoch, queued_us: int, running: int) -> Call:
        names = self._names
        keys = (names.queues, names.rows, names.idle_beats)
        return Call("wbeat", keys, (slot, epoch, queued_us, running))
