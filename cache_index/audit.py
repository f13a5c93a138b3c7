"""What an audit of a router's copy finds: pure comparison with where the workers stand in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cache_index.base import WorkerId
from cache_index.fleet import WorkerRecord
from cache_index.replica import Mark, Replica, Side


@dataclass(frozen=True, slots=True)
class WorkerComparison:
    """One worker in a view, in Redis, and by its own word at its last beat; None: unknown there."""

    worker: WorkerId
    ours: Side | None
    published: Side | None
    own: Side | None = None

    @property
    def equal(self) -> bool:
        return not self.difference

    @property
    def difference(self) -> str:
        """In words; empty if all sides agree. What the worker said of another epoch or sequence
        says nothing of this one.
        """
        ours, published, own = self.ours, self.published, self.own
        if published is None:
            return "" if ours is None else "its lease ran out, and the view still has it"
        if ours is None:
            return "the view does not have it"
        if (ours.epoch, ours.seq) != (published.epoch, published.seq):
            return "the view stands elsewhere"
        if ours != published:
            return "the view holds other blocks than were published"
        if own is not None and (own.epoch, own.seq) == (published.epoch, published.seq):
            return "" if own == published else "the worker holds other blocks than it published"
        return ""


@dataclass(frozen=True, slots=True)
class Findings:
    """`resync`: workers whose snapshot must be read. `expired`: registered, but their lease ran
    out.
    """

    resync: tuple[WorkerId, ...]
    expired: tuple[WorkerRecord, ...]


class Audit:
    """Compares, drops the dead, and remembers two kinds of doubtful workers.

    Suspects: the router saw them die; only a sign of life (an event, or a beat between two audits)
    brings them back. Missing: Redis lost its data, and with it workers that most likely live; they
    are kept until their grace ends. Both maps hold known or registered workers only.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._suspects: dict[WorkerId, Mark | None] = {}
        self._missing: dict[WorkerId, float] = {}

    def suspect(self, worker: WorkerId) -> None:
        self._suspects[worker] = None

    def missing(self, until: Mapping[WorkerId, float]) -> None:
        """Replaces the missing workers; values are times of the caller's clock."""
        self._missing = dict(until)

    def alive(self, worker: WorkerId) -> None:
        """A sign of life came in."""
        self._suspects.pop(worker, None)
        self._missing.pop(worker, None)

    def compare(
        self,
        registry: Mapping[WorkerId, WorkerRecord],
        marks: Mapping[WorkerId, Mark | None],
        now: float,
    ) -> Findings:
        """`registry` and `marks` were read before all events up to now were applied: a copy that is
        further is fine.
        """
        resync, expired = [], []
        for worker, mark in marks.items():
            record = registry.get(worker)
            if mark is None:
                if self._missing.get(worker, now) <= now:
                    self._missing.pop(worker, None)
                    if self._is_no_newer(worker, record):
                        self._replica.drop(worker)
                if record is not None:
                    expired.append(record)
            elif worker in self._suspects:
                if self._shows_life(worker, mark):
                    resync.append(worker)
            elif self._is_behind(worker, mark):
                resync.append(worker)
            elif record is not None:
                self._describe(record)
        for worker in self._suspects.keys() - registry.keys():
            del self._suspects[worker]
        return Findings(tuple(resync), tuple(expired))

    def _is_no_newer(self, worker: WorkerId, record: WorkerRecord | None) -> bool:
        """Whether the copy is not of a life that began after the marks were read."""
        known = self._replica.workers.get(worker)
        return known is not None and (record is None or known.epoch <= record.epoch)

    def _shows_life(self, worker: WorkerId, mark: Mark) -> bool:
        before = self._suspects[worker]
        self._suspects[worker] = mark
        return before is not None and before != mark

    def _is_behind(self, worker: WorkerId, mark: Mark) -> bool:
        known = self._replica.workers.get(worker)
        if known is None:
            return True
        if (known.epoch, known.seq) == (mark.epoch, mark.seq):
            return not self._replica.agrees(worker, mark)
        return (known.epoch, known.seq) < (mark.epoch, mark.seq)

    def _describe(self, record: WorkerRecord) -> None:
        known = self._replica.workers.get(record.worker_id)
        if known is not None and known.epoch == record.epoch:
            self._replica.describe(record)
