"""What a worker tells the index, and what Redis still has to be told: pure state.

`truth` is what the cache holds. Changes wait in two dirty sets that cancel each other, so that an
outage of any length costs one net delta, and publishing never compares whole sets. One batch is in
flight at a time, repeated with the same sequence number and payload until Redis has answered.

    published (what Redis holds once the batch in flight is in) =
        truth - to_add + to_remove,   to_add within truth, to_remove outside it

All three keep insertion order: a parent is stored before its children, which are removed before it,
so every cut of the dirty sets leaves the published set prefix-closed. Example: stored A, B; removed
B; stored C: to_add = A, C; nothing of B is ever said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import xor

from cache_index.base import Epoch, IndexKey

MAX_BATCH = 4096
"""Keys added, and removed, by one batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One publication. `flush`: the cache was emptied, a new epoch is asked for. `count` and
    `digest` (xor of the keys) describe the published set afterwards.
    """

    seq: int
    added: tuple[IndexKey, ...]
    removed: tuple[IndexKey, ...]
    count: int
    digest: int
    flush: bool = False


@dataclass(frozen=True, slots=True)
class OwnBlocks:
    """What the cache holds, kept apart from what was published: count, and xor of the keys."""

    count: int
    digest: int


class Publisher:
    """Not thread-safe. Memory: `truth` plus dirty sets, which together hold no more keys than the
    cache and Redis do.
    """

    def __init__(self) -> None:
        self.truth: dict[IndexKey, None] = {}
        self._truth_digest = 0
        self._to_add: dict[IndexKey, None] = {}
        self._to_remove: dict[IndexKey, None] = {}
        self._flush = False
        self._in_flight: Batch | None = None
        self._count = 0
        self._digest = 0
        self.seq = 0
        """Last sequence number that Redis confirmed in this epoch."""
        self.epoch: Epoch | None = None

    @property
    def pending(self) -> int:
        """Keys that Redis was not told of yet, those in flight left out."""
        return len(self._to_add) + len(self._to_remove) + self._flush

    @property
    def idle(self) -> bool:
        """Redis holds exactly the truth."""
        return self._in_flight is None and not self.pending

    def own(self) -> OwnBlocks | None:
        """The cache's blocks, for others to audit; None while Redis was not told all of them."""
        return OwnBlocks(len(self.truth), self._truth_digest) if self.idle else None

    # -- what the cache did

    def store(self, keys: Iterable[IndexKey]) -> None:
        """Parents before children. Idempotent."""
        for key in keys:
            if key in self.truth:
                continue
            self.truth[key] = None
            self._truth_digest ^= key
            if key in self._to_remove:
                del self._to_remove[key]
            else:
                self._to_add[key] = None

    def remove(self, keys: Iterable[IndexKey]) -> None:
        """Children before parents. Idempotent."""
        for key in keys:
            if key not in self.truth:
                continue
            del self.truth[key]
            self._truth_digest ^= key
            if key in self._to_add:
                del self._to_add[key]
            else:
                self._to_remove[key] = None

    def flush(self) -> None:
        """The cache was emptied. Redis is told by a new epoch, not key by key."""
        self.truth.clear()
        self._truth_digest = 0
        self._to_add.clear()
        self._to_remove.clear()
        # Nothing was published yet, nor is about to be: an empty epoch needs no successor.
        self._flush = self._count > 0 or self._in_flight is not None

    # -- what Redis is told

    def registered(self, epoch: Epoch) -> None:
        """A new epoch: Redis holds nothing, everything is said anew."""
        self.epoch, self.seq = epoch, 0
        self._in_flight, self._flush = None, False
        self._count, self._digest = 0, 0
        self._to_add = dict(self.truth)
        self._to_remove.clear()

    def next_batch(self) -> Batch | None:
        """The batch in flight, or a new one; None if there is nothing to say."""
        if self._in_flight is None:
            self._in_flight = self._cut()
        return self._in_flight

    def _cut(self) -> Batch | None:
        if self._flush:
            self._flush = False
            self._count, self._digest = 0, 0
            return Batch(self.seq + 1, (), (), 0, 0, flush=True)
        if not self.pending:
            return None
        added = tuple(islice(self._to_add, MAX_BATCH))
        removed = tuple(islice(self._to_remove, MAX_BATCH))
        for key in added:
            del self._to_add[key]
            self._digest ^= key
        for key in removed:
            del self._to_remove[key]
            self._digest ^= key
        self._count += len(added) - len(removed)
        return Batch(self.seq + 1, added, removed, self._count, self._digest)

    def confirmed(self) -> None:
        """Redis applied the batch in flight (now, or before: a duplicate)."""
        assert self._in_flight is not None and not self._in_flight.flush
        self.seq, self._in_flight = self._in_flight.seq, None

    def flushed(self, epoch: Epoch) -> None:
        """Redis started `epoch` for the flush in flight; what was stored since is still dirty."""
        assert self._in_flight is not None and self._in_flight.flush
        self.epoch, self.seq, self._in_flight = epoch, 0, None

    def check(self) -> None:
        """Raises AssertionError if an invariant is broken. O(cache)."""
        assert _xor(self.truth) == self._truth_digest, "digest of the cache is off"
        assert self._to_add.keys() <= self.truth.keys(), "says what is not cached"
        assert not self._to_remove.keys() & self.truth.keys(), "withdraws what is cached"
        if self._flush:
            assert self._to_add.keys() == self.truth.keys() and not self._to_remove
            return
        published = (self.truth.keys() - self._to_add.keys()) | self._to_remove.keys()
        assert (len(published), _xor(published)) == (self._count, self._digest), (
            "published set is off"
        )


def _xor(keys: Iterable[IndexKey]) -> int:
    return reduce(xor, keys, 0)
