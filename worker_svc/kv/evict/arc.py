"""ARC on leaves, and ARC-mix: re-used and never re-used blocks on two sides whose sizes adapt.

After ARC (Megiddo and Modha, FAST 2003). Side 0 has the blocks never re-used since they were
cached, side 1 the others. The victim comes from side 0 when it holds more than `target` blocks (or
side 1 has no leaf), else from side 1. The last `capacity` evictions of each side are remembered as
ghosts, whether or not they came back since; a key that comes back proves that its side was too
small:

    ghost of side 0: target += max(1, evictions of 1 / evictions of 0), each at most capacity
    ghost of side 1: target -= max(1, evictions of 0 / evictions of 1)

kept in [0, capacity]; the block goes to side 1. Start: target = capacity / 2.

Within a side the victim is the least recently used leaf with probability w, else any leaf. `arc`
has w = 1, `arc_random` w = 0. `arc_mix` learns w from regret, as LeCaR does (Vietri et al.,
HotStorage 2018): when a key evicted by one rule comes back after `age` of `capacity` evictions,
that rule's weight is multiplied by exp(-30 / capacity * 0.005 ** age), both are normalised and w is
kept in [0.02, 0.98]. The mix resists scans, where LRU leaves have no hits at all.

Example, capacity 4, target 2, three never re-used blocks and one re-used: 3 > 2, so a leaf of side
0 goes, say A. A comes back: target becomes 3, A joins side 1. Next time side 0 has 2 blocks, not
more than 3: side 1 gives the victim.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from random import Random
from typing import TypeAlias

from worker_svc.kv.base import Key, require
from worker_svc.kv.evict.leaf_heap import LeafHeap
from worker_svc.kv.evict.leaf_set import LeafSet

_Ghosts: TypeAlias = OrderedDict[Key, tuple[bool, int, int]]
_REGRET = 30.0
_DECAY = 0.005
_LEAST, _MOST = 0.02, 0.98


class Arc:
    """`lru_share`: the fixed w; None: learned. O(log n)."""

    def __init__(self, capacity: int, rng: Random, lru_share: float | None = 1.0) -> None:
        self._capacity = capacity
        self._random = rng.random
        self._learns = lru_share is None
        self.lru_share = 0.5 if lru_share is None else lru_share
        self.target = capacity / 2
        self._clock = 0
        self._evictions = 0
        self._gone = [0, 0]
        self._last = [0] * capacity
        self._key: list[Key] = [None] * capacity
        self._reused = bytearray(capacity)
        self._fresh = 0
        self._sets = (LeafSet(), LeafSet())
        self._heaps = (LeafHeap(), LeafHeap())
        # Per side: key -> (evicted at random, number of that eviction, its number on this side),
        # oldest first.
        # OrderedDict: the first key of a plain dict is found past every key deleted before it.
        self._ghosts = (_Ghosts(), _Ghosts())

    def insert(self, block: int, key: Key, parent: int | None) -> None:
        self._clock += 1
        self._last[block] = self._clock
        self._key[block] = key
        side = 0 if key in self._ghosts[0] else 1 if key in self._ghosts[1] else None
        if side is None:
            self._reused[block] = 0
            self._fresh += 1
            return
        at_random, evicted, _ = self._ghosts[side].pop(key)
        self._adapt(side, at_random, evicted)
        self._reused[block] = 1

    def hit(self, block: int) -> None:
        self._clock += 1
        self._last[block] = self._clock
        if not self._reused[block]:
            self._reused[block] = 1
            self._fresh -= 1

    def release(self, block: int) -> None:
        self._clock += 1
        self._last[block] = self._clock

    def leaf_on(self, block: int) -> None:
        side = self._reused[block]
        self._sets[side].add(block)
        self._heaps[side].add(block, self._last[block])

    def leaf_off(self, block: int) -> None:
        side = self._reused[block]
        self._sets[side].discard(block)
        self._heaps[side].discard(block)

    def remove(self, block: int) -> None:
        self.leaf_off(block)
        self._fresh -= not self._reused[block]

    def pop(self) -> int | None:
        fresh, reused = self._sets
        side = 0 if fresh.items and (not reused.items or self._fresh > self.target) else 1
        items = self._sets[side].items
        if not items:
            return None
        share = self.lru_share
        at_random = share <= 0 or (share < 1 and self._random() >= share)
        if at_random:
            block = self._sets[side].take(int(self._random() * len(items)))
            self._heaps[side].discard(block)
        else:
            found = self._heaps[side].pop()
            assert found is not None
            block = found
            self._sets[side].discard(block)
        self._fresh -= side == 0
        self._evictions += 1
        self._gone[side] += 1
        ghosts, gone = self._ghosts[side], self._gone[side]
        ghosts[self._key[block]] = (at_random, self._evictions, gone)
        if next(iter(ghosts.values()))[2] <= gone - self._capacity:
            ghosts.popitem(last=False)
        return block

    def _adapt(self, side: int, at_random: bool, evicted: int) -> None:
        """A ghost of `side` came back (and is out of its list already)."""
        fresh, reused = (max(1, min(gone, self._capacity)) for gone in self._gone)
        ratio = fresh / reused
        if side == 0:
            self.target = min(float(self._capacity), self.target + max(1.0, 1 / ratio))
        else:
            self.target = max(0.0, self.target - max(1.0, ratio))
        age = (self._evictions - evicted) / self._capacity
        if not self._learns or age >= 1:
            return
        factor = math.exp(-_REGRET / self._capacity * _DECAY**age)
        lru, uniform = self.lru_share, 1 - self.lru_share
        if at_random:
            uniform *= factor
        else:
            lru *= factor
        self.lru_share = min(_MOST, max(_LEAST, lru / (lru + uniform)))

    def __len__(self) -> int:
        return len(self._sets[0]) + len(self._sets[1])

    def check(self) -> None:
        for side in (0, 1):
            leaves, heap = self._sets[side], self._heaps[side]
            leaves.check()
            heap.check()
            require(len(leaves) == len(heap), "arc: set and heap of a side differ")
            for block in leaves.items:
                require(self._reused[block] == side, f"arc: block {block} is on the wrong side")
            require(len(self._ghosts[side]) <= self._capacity, "arc: too many ghosts")
        require(not set(self._ghosts[0]) & set(self._ghosts[1]), "arc: a ghost is on both sides")
        require(self._fresh >= len(self._sets[0]), "arc: never re-used blocks are miscounted")
        require(0 <= self.target <= self._capacity, "arc: target out of range")


def arc_random(capacity: int, rng: Random) -> Arc:
    return Arc(capacity, rng, 0.0)


def arc_mix(capacity: int, rng: Random) -> Arc:
    return Arc(capacity, rng, None)
