"""FIFO: evicts the leaf that was cached first, whatever was used since."""

from __future__ import annotations

from random import Random

from worker_svc.kv.base import Key
from worker_svc.kv.evict.leaf_heap import LeafHeap


class Fifo:
    """O(log n)."""

    def __init__(self, capacity: int, rng: Random) -> None:
        self._count = 0
        self._inserted = [0] * capacity
        self._leaves = LeafHeap()

    def insert(self, block: int, key: Key, parent: int | None) -> None:
        self._count += 1
        self._inserted[block] = self._count

    def hit(self, block: int) -> None: ...

    def release(self, block: int) -> None: ...

    def leaf_on(self, block: int) -> None:
        self._leaves.add(block, self._inserted[block])

    def leaf_off(self, block: int) -> None:
        self._leaves.discard(block)

    remove = leaf_off

    def pop(self) -> int | None:
        return self._leaves.pop()

    def __len__(self) -> int:
        return len(self._leaves)

    def check(self) -> None:
        self._leaves.check()
