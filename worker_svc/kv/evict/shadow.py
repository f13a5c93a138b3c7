"""Shadow follower: runs four evictors without data on the same accesses, and keeps what the best
of them keeps.

Experts: arc, arc_random, rlt, lru. Each expert's misses are counted, discounted by exp(-1 / (100
capacity)) per access. The leader is followed: the victim is the least recently used leaf that the
leader's shadow does not hold. Another expert takes the lead when it is better by more than a
quarter of the capacity; a leader's costs are at most `capacity` misses to catch up with, so few
switches cost little, and the bound of RLT carries over times a constant (undiscounted).

When the real cache must evict before the shadow had to (blocks of running requests are not in it
yet), the leader makes its room now and the real cache follows.
"""

from __future__ import annotations

import math
from random import Random

from worker_svc.kv.base import Evictor, Key, require
from worker_svc.kv.evict.arc import Arc, arc_random
from worker_svc.kv.evict.leaf_heap import LeafHeap
from worker_svc.kv.evict.lru import Lru
from worker_svc.kv.evict.rlt import Rlt
from worker_svc.kv.evict.shadow_cache import ShadowCache

_HORIZON = 100.0
_MARGIN = 0.25


class Shadow:
    """O(log n) for each expert and event; a switch O(n log n)."""

    def __init__(self, capacity: int, rng: Random) -> None:
        experts: list[Evictor] = [
            kind(capacity, Random(rng.random())) for kind in (Arc, arc_random, Rlt, Lru)
        ]
        self._capacity = capacity
        self.shadows = [ShadowCache(capacity, expert) for expert in experts]
        self.costs = [0.0] * len(experts)
        self.leader = 0
        self._discount = math.exp(-1 / (_HORIZON * capacity))
        self._clock = 0
        self._last = [0] * capacity
        self._key: list[Key] = [None] * capacity
        self._parent: list[Key | None] = [None] * capacity
        self._block: dict[Key, int] = {}
        self._used = bytearray(capacity)
        # Leaves that the leader's shadow holds, and leaves that it does not.
        self._inside, self._outside = LeafHeap(), LeafHeap()

    def insert(self, block: int, key: Key, parent: int | None) -> None:
        self._key[block] = key
        self._parent[block] = None if parent is None else self._key[parent]
        self._block[key] = block
        self._access(block)

    def hit(self, block: int) -> None:
        self._access(block)

    def release(self, block: int) -> None:
        self._clock += 1
        self._last[block] = self._clock
        # A block may have been locked without any request using it: no shadow knows of that.
        if self._used[block]:
            self._used[block] = 0
            for shadow in self.shadows:
                shadow.release(self._key[block])

    def leaf_on(self, block: int) -> None:
        inside = self._key[block] in self.shadows[self.leader]
        (self._inside if inside else self._outside).add(block, self._last[block])

    def leaf_off(self, block: int) -> None:
        if not self._outside.discard(block):
            self._inside.discard(block)

    def remove(self, block: int) -> None:
        self.leaf_off(block)
        self._forget(block)

    def pop(self) -> int | None:
        while not len(self._outside) and len(self._inside):
            gone = self.shadows[self.leader].shrink()
            if gone is None:
                break
            self._move_out(gone)
        block = self._outside.pop()
        if block is None:
            block = self._inside.pop()
        if block is not None:
            self._forget(block)
        return block

    def _access(self, block: int) -> None:
        self._clock += 1
        self._last[block] = self._clock
        key = self._key[block]
        if self._used[block]:
            for shadow in self.shadows:
                shadow.touch(key)
            return
        self._used[block] = 1
        for index, shadow in enumerate(self.shadows):
            before = shadow.misses
            gone = shadow.acquire(key, self._parent[block])
            self.costs[index] = self.costs[index] * self._discount + shadow.misses - before
            if index == self.leader:
                self._move_out(gone)
        best = min(range(len(self.costs)), key=self.costs.__getitem__)
        if self.costs[self.leader] - self.costs[best] > _MARGIN * self._capacity:
            self._follow(best)

    def _follow(self, leader: int) -> None:
        self.leader = leader
        leaves = [*self._inside.blocks(), *self._outside.blocks()]
        self._inside, self._outside = LeafHeap(), LeafHeap()
        for block in leaves:
            self.leaf_on(block)

    def _move_out(self, gone: tuple[Key, ...]) -> None:
        """The leader's shadow dropped these keys."""
        for key in gone:
            block = self._block.get(key)
            if block is not None and self._inside.discard(block):
                self._outside.add(block, self._last[block])

    def _forget(self, block: int) -> None:
        del self._block[self._key[block]]

    def __len__(self) -> int:
        return len(self._inside) + len(self._outside)

    def check(self) -> None:
        self._inside.check()
        self._outside.check()
        shadow = self.shadows[self.leader]
        for held, heap in ((True, self._inside), (False, self._outside)):
            for block in heap.blocks():
                require((self._key[block] in shadow) == held, f"shadow: block {block} misplaced")
        for shadow in self.shadows:
            shadow.check()
