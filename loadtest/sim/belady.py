"""Belady on leaves: evicts the leaf whose next use is farthest away. A bound, not an evictor: it
reads the future.
"""

from __future__ import annotations

from loadtest.sim.future import Future
from worker_svc.kv.base import Key
from worker_svc.kv.evict.leaf_heap import LeafHeap


class Belady:
    """`now` must be set to the place of the call at hand before the pool is used for it."""

    def __init__(self, capacity: int, future: Future) -> None:
        self.now = -1
        self._future = future
        self._key: list[Key] = [None] * capacity
        self._leaves = LeafHeap()
        self._ticks = 0

    def insert(self, block: int, key: Key, parent: int | None) -> None:
        self._key[block] = key

    def hit(self, block: int) -> None:
        pass

    def release(self, block: int) -> None:
        pass

    def leaf_on(self, block: int) -> None:
        key = self._key[block]
        assert isinstance(key, int)
        # The tick makes ranks distinct; among blocks never used again any order is as good.
        self._ticks += 1
        self._leaves.add(block, (-self._future.next_use(key, self.now), self._ticks))

    def leaf_off(self, block: int) -> None:
        self._leaves.discard(block)

    remove = leaf_off

    def pop(self) -> int | None:
        return self._leaves.pop()

    def __len__(self) -> int:
        return len(self._leaves)

    def check(self) -> None:
        self._leaves.check()
