"""LFU: evicts the leaf used by the fewest requests since it was cached; of those, the least
recently used.
"""

from __future__ import annotations

from random import Random

from worker_svc.kv.base import Key
from worker_svc.kv.evict.leaf_heap import LeafHeap


class Lfu:
    """Counts start anew when a block comes back. O(log n)."""

    def __init__(self, capacity: int, rng: Random) -> None:
        self._clock = 0
        self._uses = [0] * capacity
        self._last = [0] * capacity
        self._leaves = LeafHeap()

    def _access(self, block: int) -> None:
        self._clock += 1
        self._last[block] = self._clock

    def insert(self, block: int, key: Key, parent: int | None) -> None:
        self._uses[block] = 1
        self._access(block)

    def hit(self, block: int) -> None:
        self._uses[block] += 1
        self._access(block)

    def release(self, block: int) -> None:
        self._access(block)

    def leaf_on(self, block: int) -> None:
        self._leaves.add(block, (self._uses[block], self._last[block]))

    def leaf_off(self, block: int) -> None:
        self._leaves.discard(block)

    remove = leaf_off

    def pop(self) -> int | None:
        return self._leaves.pop()

    def __len__(self) -> int:
        return len(self._leaves)

    def check(self) -> None:
        self._leaves.check()
