"""S3-FIFO (Yang et al., SOSP 2023) on leaves: most new blocks are never used again, so they
leave soon.

Blocks never re-used since they were cached form the small side, the others the main side. Victims
come from the small side (oldest first) while it holds more than a tenth of the capacity, else from
the main side: the block used longest ago, but one that was used since its last turn gets another
turn (up to three). A block that comes back within `capacity` insertions of its eviction goes to the
main side at once.

Difference to the paper: a hit promotes at once instead of at the end of the small queue, for a
block is often no leaf then.
"""

from __future__ import annotations

from collections import OrderedDict
from random import Random

from worker_svc.kv.base import Key, require
from worker_svc.kv.evict.leaf_heap import LeafHeap

_SMALL_SHARE = 10
_TURNS = 3


class S3Fifo:
    """O(log n); a block is passed over at most three times per eviction it survives."""

    def __init__(self, capacity: int, rng: Random) -> None:
        self._capacity = capacity
        self._clock = 0
        self._insertions = 0
        self._rank = [0] * capacity
        self._turns = [0] * capacity
        self._key: list[Key] = [None] * capacity
        self._main = bytearray(capacity)
        self._small_count = 0
        self._small_leaves = LeafHeap()
        self._main_leaves = LeafHeap()
        # Key -> number of the insertion it was evicted before; the oldest entry first.
        self._ghosts: OrderedDict[Key, int] = OrderedDict()

    def insert(self, block: int, key: Key, parent: int | None) -> None:
        self._insertions += 1
        evicted_at = self._ghosts.pop(key, None)
        main = evicted_at is not None and self._insertions - evicted_at <= self._capacity
        self._main[block] = main
        self._small_count += not main
        self._key[block], self._turns[block] = key, 0
        self._clock += 1
        self._rank[block] = self._clock

    def hit(self, block: int) -> None:
        self._turns[block] = min(_TURNS, self._turns[block] + 1)
        if not self._main[block]:
            self._main[block] = 1
            self._small_count -= 1
        self._clock += 1
        self._rank[block] = self._clock

    def release(self, block: int) -> None: ...

    def leaf_on(self, block: int) -> None:
        self._side(block).add(block, self._rank[block])

    def leaf_off(self, block: int) -> None:
        self._side(block).discard(block)

    def remove(self, block: int) -> None:
        self._side(block).discard(block)
        self._small_count -= not self._main[block]

    def pop(self) -> int | None:
        small_first = self._small_count * _SMALL_SHARE > self._capacity
        if len(self._small_leaves) and (small_first or not len(self._main_leaves)):
            block = self._small_leaves.pop()
            self._small_count -= 1
        else:
            block = self._pop_main()
        if block is not None:
            self._remember(self._key[block])
        return block

    def _pop_main(self) -> int | None:
        while (block := self._main_leaves.pop()) is not None:
            if not self._turns[block]:
                return block
            self._turns[block] -= 1
            self._clock += 1
            self._rank[block] = self._clock
            self._main_leaves.add(block, self._clock)
        return None

    def _remember(self, key: Key) -> None:
        self._ghosts[key] = self._insertions
        if len(self._ghosts) > self._capacity:
            self._ghosts.popitem(last=False)

    def _side(self, block: int) -> LeafHeap:
        return self._main_leaves if self._main[block] else self._small_leaves

    def __len__(self) -> int:
        return len(self._small_leaves) + len(self._main_leaves)

    def check(self) -> None:
        self._small_leaves.check()
        self._main_leaves.check()
        require(len(self._ghosts) <= self._capacity, "s3fifo: too many ghosts")
        require(self._small_count >= len(self._small_leaves), "s3fifo: small side is miscounted")
