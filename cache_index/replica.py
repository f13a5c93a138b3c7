"""A router's copy of the fleet: which events change it, and which say that something was missed.

Pure: the follower reads from Redis, this decides. Rules (epoch of the event against the known one):
an older epoch is a duplicate; `Registered` with a newer one starts the worker empty at sequence 0;
a delta applies if it is the next one, is a duplicate if it is not newer, and otherwise (gap,
unknown worker, newer epoch) the worker's snapshot must be read; `Gone` of the same epoch drops the
worker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from cache_index.base import Epoch, WorkerId
from cache_index.events import DEVICE_TIER, Delta, Event, Gone, Registered, Updated
from cache_index.fleet import WorkerRecord
from cache_index.view import IndexView


class Outcome(Enum):
    """What an event did."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    RESYNC = "resync"
    """Something was missed: read the worker's snapshot."""


@dataclass(frozen=True, slots=True)
class Side:
    """A worker's blocks as one side knows them; `digest`: xor of the keys."""

    epoch: int
    seq: int
    blocks: int
    digest: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a worker stands in Redis: what an audit compares. `beats` counts its beats in this
    epoch; `own`: what its cache held at one of them, by itself.
    """

    epoch: Epoch
    seq: int
    beats: int
    count: int
    digest: int
    own: Side | None = None


class Replica:
    """Workers and their blocks. `version` grows whenever the set of workers or a description
    changes.
    """

    def __init__(self, view: IndexView) -> None:
        self.view = view
        self.workers: dict[WorkerId, WorkerRecord] = {}
        self.version = 0

    def apply(self, event: Event) -> Outcome:
        """Idempotent. O(keys of the event)."""
        if isinstance(event, Delta):
            return self._delta(event)
        if isinstance(event, Gone):
            known = self.workers.get(event.worker)
            if known is None or known.epoch != event.epoch:
                return Outcome.DUPLICATE
            self.drop(event.worker)
            return Outcome.APPLIED
        known = self.workers.get(event.record.worker_id)
        if isinstance(event, Registered):
            if known is not None and event.record.epoch <= known.epoch:
                return Outcome.DUPLICATE
            self.begin(event.record)
            return Outcome.APPLIED
        return self._updated(event, known)

    def _updated(self, event: Updated, known: WorkerRecord | None) -> Outcome:
        if known is None or event.record.epoch > known.epoch:
            return Outcome.RESYNC
        if event.record.epoch < known.epoch:
            return Outcome.DUPLICATE
        self.describe(event.record)
        return Outcome.APPLIED

    def _delta(self, event: Delta) -> Outcome:
        known = self.workers.get(event.worker)
        if known is None or event.epoch > known.epoch:
            return Outcome.RESYNC
        if event.epoch < known.epoch or event.seq <= known.seq:
            return Outcome.DUPLICATE
        if event.seq != known.seq + 1:
            return Outcome.RESYNC
        if event.tier == DEVICE_TIER:
            self.view.remove(event.worker, event.removed)
            self.view.store(event.worker, event.added)
        self.workers[event.worker] = replace(known, seq=event.seq)
        return Outcome.APPLIED

    # -- direct changes, also used by snapshots and audits

    def begin(self, record: WorkerRecord) -> None:
        """A worker starts with no blocks, at `record.seq`. Whoever held its slot is gone."""
        for other in [w for w in self.workers.values() if w.slot == record.slot]:
            if other.worker_id != record.worker_id:
                self.drop(other.worker_id)
        self.view.add_worker(record.worker_id, record.epoch)
        self.workers[record.worker_id] = record
        self.version += 1

    def describe(self, record: WorkerRecord) -> None:
        """Takes a description over; the sequence number stays."""
        known = self.workers[record.worker_id]
        described = replace(record, seq=known.seq)
        if described != known:
            self.workers[record.worker_id] = described
            self.version += 1

    def drop(self, worker: WorkerId) -> bool:
        """Forgets a worker and its blocks; whether it was known."""
        known = self.workers.pop(worker, None)
        self.view.drop_worker(worker)
        self.version += known is not None
        return known is not None

    def clear(self) -> None:
        for worker in list(self.workers):
            self.drop(worker)

    def agrees(self, worker: WorkerId, mark: Mark) -> bool:
        """Whether the copy is at `mark`, and holds the same set (by count and xor) if nothing had
        to be refused.
        """
        known = self.workers.get(worker)
        if known is None or (known.epoch, known.seq) != (mark.epoch, mark.seq):
            return False
        if self.view.is_truncated(worker):
            return True
        return (self.view.count(worker), self.view.digest(worker)) == (mark.count, mark.digest)

    def check(self) -> None:
        """Raises AssertionError if an invariant is broken. Scans the index."""
        self.view.check()
        assert set(self.view.workers) == self.workers.keys(), "view and fleet differ"
        assert len({w.slot for w in self.workers.values()}) == len(self.workers), "a slot is shared"
        for worker, record in self.workers.items():
            assert self.view.epoch(worker) == record.epoch, "view holds another epoch"
