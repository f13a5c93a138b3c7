"""One router's view of the global prefix index: which worker holds which block.

Every (worker, epoch) has one bit; a block maps to the mask of the workers that hold it. Caches are
prefix-closed (workers evict leaves first), so along a prompt the mask can only lose bits: equal
masks at i < j mean equal masks between them. `match` looks at both ends and bisects towards each
change, reusing what it saw: about log2(blocks) lookups per change, not one per block. A worker that
leaves, restarts or flushes only loses its bit from `alive`; the dead bits are swept out of the
masks a shard at a time, and a bit is used again only after that. Blocks are spread over shards so
that no call ever walks the whole index.

Example, workers A = bit 1, B = bit 2, prompt of 6 blocks with masks 3 3 3 1 1 -: A hits 5 blocks, B
hits 3.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cache_index.base import Epoch, IndexKey, WorkerId

SHARDS = 64
"""Blocks are spread by the low bits of their key, which are uniform."""
_LOW = SHARDS - 1
_CANON_LIMIT = 1 << 16


class Hits(dict[WorkerId, int]):
    """Blocks hit per worker, workers with none left out; `best` is the largest."""

    __slots__ = ("best",)

    def __init__(self) -> None:
        super().__init__()
        self.best = 0


@dataclass(slots=True)
class _Bit:
    """One (worker, epoch). `digest`: xor of its keys. `full`: the cap refused one of its blocks."""

    worker: WorkerId
    epoch: Epoch
    mask: int
    count: int = 0
    digest: int = 0
    full: bool = False


class IndexView:
    """Pure and synchronous. `max_blocks`: hard cap on distinct blocks (about 110 bytes each)."""

    def __init__(self, max_blocks: int = 8_000_000) -> None:
        self.max_blocks = max_blocks
        self.refused = 0
        """Blocks that the cap kept out."""
        self._shards: list[dict[int, int]] = [{} for _ in range(SHARDS)]
        self._get = [shard.get for shard in self._shards]
        self._bits: dict[WorkerId, _Bit] = {}
        self._names: dict[int, WorkerId] = {}
        self._alive = 0
        self._dead = 0
        self._sweeping = 0
        self._next_shard = 0
        self._canon: dict[int, int] = {}

    def __len__(self) -> int:
        """Distinct blocks held, those of dead bits that are not swept yet included. O(shards)."""
        return sum(map(len, self._shards))

    @property
    def workers(self) -> Iterable[WorkerId]:
        return self._bits.keys()

    def epoch(self, worker: WorkerId) -> Epoch | None:
        bit = self._bits.get(worker)
        return bit.epoch if bit else None

    def count(self, worker: WorkerId) -> int:
        """Blocks of a worker; 0 if unknown. O(1)."""
        bit = self._bits.get(worker)
        return bit.count if bit else 0

    def digest(self, worker: WorkerId) -> int:
        """Xor of the worker's keys: equal sets have equal digests. O(1)."""
        bit = self._bits.get(worker)
        return bit.digest if bit else 0

    def is_truncated(self, worker: WorkerId) -> bool:
        """The cap refused blocks of this worker; only adding it anew mends that."""
        bit = self._bits.get(worker)
        return bit is not None and bit.full

    # -- changes

    def add_worker(self, worker: WorkerId, epoch: Epoch) -> None:
        """Starts an empty (worker, epoch); what an older epoch of it held is dead at once. O(1)."""
        self.drop_worker(worker)
        used = self._alive | self._dead
        mask = ~used & (used + 1)
        self._bits[worker] = _Bit(worker, epoch, mask)
        self._names[mask] = worker
        self._alive |= mask

    def drop_worker(self, worker: WorkerId) -> bool:
        """Forgets a worker; whether it was known. O(1): its bit is swept later."""
        bit = self._bits.pop(worker, None)
        if bit is None:
            return False
        del self._names[bit.mask]
        self._alive &= ~bit.mask
        self._dead |= bit.mask
        return True

    def store(self, worker: WorkerId, keys: Iterable[IndexKey]) -> bool:
        """Adds blocks, parents before children; whether all were taken. Idempotent. Unknown workers
        are ignored.

        Once the cap refused a block, all later ones of that worker are refused too: a child without
        its parent would break the prefix closure that `match` relies on.
        """
        bit = self._bits.get(worker)
        if bit is None:
            return False
        mask, shards, canon = bit.mask, self._shards, self._canon.setdefault
        if len(self._canon) > _CANON_LIMIT:
            self._canon.clear()
        room = self.max_blocks - len(self)
        count, digest = bit.count, bit.digest
        for key in keys:
            shard = shards[key & _LOW]
            old = shard.get(key)
            if old is None:
                if room <= 0 or bit.full:
                    self.refused += 1
                    bit.full = True
                    continue
                room -= 1
                shard[key] = mask
            elif old & mask:
                continue
            elif bit.full:
                self.refused += 1
                continue
            else:
                merged = old | mask
                shard[key] = canon(merged, merged)
            count += 1
            digest ^= key
        bit.count, bit.digest = count, digest
        return not bit.full

    def remove(self, worker: WorkerId, keys: Iterable[IndexKey]) -> None:
        """Removes blocks, children before parents. Idempotent. Unknown workers and blocks are
        ignored.
        """
        bit = self._bits.get(worker)
        if bit is None:
            return
        mask, shards, canon = bit.mask, self._shards, self._canon.setdefault
        for key in keys:
            shard = shards[key & _LOW]
            old = shard.get(key)
            if old is None or not old & mask:
                continue
            left = old & ~mask
            if left:
                shard[key] = canon(left, left)
            else:
                del shard[key]
            bit.count -= 1
            bit.digest ^= key

    def sweep(self, limit: int = 20_000) -> int:
        """Clears dead bits, shard by shard, until `limit` entries were looked at; returns how many.

        Call it now and then; it costs nothing while no bit is dead.
        """
        looked = 0
        while self._dead and looked < limit:
            if not self._sweeping:
                self._sweeping, self._next_shard = self._dead, 0
            looked += self._sweep_shard(self._shards[self._next_shard], self._sweeping)
            self._next_shard += 1
            if self._next_shard == SHARDS:
                # Only bits that were dead when this round began have seen every shard.
                self._dead &= ~self._sweeping
                self._sweeping = 0
        return looked

    @staticmethod
    def _sweep_shard(shard: dict[int, int], dead: int) -> int:
        looked = len(shard)
        for key, mask in [(key, mask & ~dead) for key, mask in shard.items() if mask & dead]:
            if mask:
                shard[key] = mask
            else:
                del shard[key]
        return looked

    # -- questions

    def match(self, keys: Sequence[IndexKey]) -> Hits:
        """How many leading blocks of `keys` each worker holds. Read-only. O(changes *
        log(len(keys))).
        """
        hits = Hits()
        get, end = self._get, len(keys)
        if not end:
            return hits
        mask = get[keys[0] & _LOW](keys[0], 0) & self._alive
        if not mask:
            return hits
        # Known points further on, nearest last: where they are, and what mask is left there.
        last = keys[-1]
        known = [(end - 1, get[last & _LOW](last, 0) & mask)]
        low = 0
        while known:
            high, left = known[-1]
            left &= mask
            if left != mask:
                # Find the first block behind `low` that has lost a bit.
                while high - low > 1:
                    middle = (low + high) >> 1
                    key = keys[middle]
                    found = get[key & _LOW](key, 0) & mask
                    if found == mask:
                        low = middle
                    else:
                        high, left = middle, found
                        known.append((middle, found))
                self._record(hits, mask ^ left, high)
                mask = left
                if not mask:
                    return hits
            low = high
            known.pop()
        self._record(hits, mask, end)
        return hits

    def _record(self, hits: Hits, mask: int, blocks: int) -> None:
        names = self._names
        hits.best = blocks
        while mask:
            bit = mask & -mask
            hits[names[bit]] = blocks
            mask ^= bit

    def holds(self, worker: WorkerId, key: IndexKey) -> bool:
        bit = self._bits.get(worker)
        return bit is not None and bool(self._get[key & _LOW](key, 0) & bit.mask)

    def blocks_of(self, worker: WorkerId) -> set[IndexKey]:
        """All blocks of one worker. Scans the index: for audits and tests."""
        bit = self._bits.get(worker)
        if bit is None:
            return set()
        return {
            IndexKey(key)
            for shard in self._shards
            for key, mask in shard.items()
            if mask & bit.mask
        }

    def check(self) -> None:
        """Raises AssertionError if an invariant is broken. Scans the index: for tests and idle
        audits.
        """
        alive = 0
        for worker, bit in self._bits.items():
            assert bit.mask.bit_count() == 1 and not alive & bit.mask, "two workers share a bit"
            assert self._names[bit.mask] == worker, "a bit names another worker"
            alive |= bit.mask
            blocks = self.blocks_of(worker)
            digest = functools.reduce(operator.xor, blocks, 0)
            assert (len(blocks), digest) == (bit.count, bit.digest), f"count of {worker} is wrong"
        assert alive == self._alive and len(self._names) == len(self._bits), "alive mask is wrong"
        assert not self._alive & self._dead, "a bit is alive and dead"
        known = self._alive | self._dead
        for number, shard in enumerate(self._shards):
            for key, mask in shard.items():
                assert key & _LOW == number, "a block is in the wrong shard"
                assert mask and not mask & ~known, "a block has no owner"
        assert len(self) <= self.max_blocks, "more blocks than the cap allows"
