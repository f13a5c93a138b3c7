"""RLT: the randomized leaf-token evictor of arXiv 2601.18999 (Wu, Silwal, Zhang), section on
eviction.

A block is marked when it is accessed. The victim is uniform over the unmarked leaves; when every
leaf is marked, a new phase begins and all marks fall. Theta(log n)-competitive in the paper's
model, the best a randomized leaf evictor can do.

Marks are epochs: `mark[block] == epoch` means marked, so that a new phase costs O(1) (the two leaf
sets change roles).

Example, leaves a (marked), b, c: the victim is b or c with equal chance; say b. Then c. Then the
phase ends: a is unmarked, and the victim. A leaf that appears meanwhile (its child was evicted)
goes to the side its own mark says.
"""

from __future__ import annotations

from random import Random

from worker_svc.kv.base import Key, require
from worker_svc.kv.evict.leaf_set import LeafSet


class Rlt:
    """Every event O(1); `pop` one random number."""

    def __init__(self, capacity: int, rng: Random) -> None:
        self._random = rng.random
        self._epoch = 1
        self._mark = [0] * capacity
        self._unmarked = LeafSet()
        self._marked = LeafSet()

    @property
    def phases(self) -> int:
        """Phases begun so far."""
        return self._epoch

    def insert(self, block: int, key: Key, parent: int | None) -> None:
        self._mark[block] = self._epoch

    def hit(self, block: int) -> None:
        self._mark[block] = self._epoch

    def release(self, block: int) -> None:
        self._mark[block] = self._epoch

    def leaf_on(self, block: int) -> None:
        (self._marked if self._mark[block] == self._epoch else self._unmarked).add(block)

    def leaf_off(self, block: int) -> None:
        if not self._unmarked.discard(block):
            self._marked.discard(block)

    remove = leaf_off

    def pop(self) -> int | None:
        items = self._unmarked.items
        if not items:
            if not self._marked.items:
                return None
            self._epoch += 1
            self._unmarked, self._marked = self._marked, self._unmarked
            items = self._unmarked.items
        return self._unmarked.take(int(self._random() * len(items)))

    def __len__(self) -> int:
        return len(self._unmarked) + len(self._marked)

    def check(self) -> None:
        self._unmarked.check()
        self._marked.check()
        for block in self._unmarked.items:
            require(
                self._mark[block] < self._epoch, f"rlt: marked block {block} among the unmarked"
            )
        for block in self._marked.items:
            require(self._mark[block] == self._epoch, f"rlt: block {block} lost its mark")
