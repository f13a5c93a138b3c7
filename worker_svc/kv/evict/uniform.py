"""Random: evicts any leaf, all with equal chance."""

from __future__ import annotations

from random import Random

from worker_svc.kv.base import Key
from worker_svc.kv.evict.leaf_set import LeafSet


class Uniform:
    """O(1)."""

    def __init__(self, capacity: int, rng: Random) -> None:
        self._random = rng.random
        self._leaves = LeafSet()

    def insert(self, block: int, key: Key, parent: int | None) -> None: ...

    def hit(self, block: int) -> None: ...

    def release(self, block: int) -> None: ...

    def leaf_on(self, block: int) -> None:
        self._leaves.add(block)

    def leaf_off(self, block: int) -> None:
        self._leaves.discard(block)

    remove = leaf_off

    def pop(self) -> int | None:
        items = self._leaves.items
        if not items:
            return None
        return self._leaves.take(int(self._random() * len(items)))

    def __len__(self) -> int:
        return len(self._leaves)

    def check(self) -> None:
        self._leaves.check()
