"""Who uses which block, which blocks hold what, and who has to go: the prefix tree, without any
tensor.

A block is free (holds nothing), cached (holds a key, nobody uses it) or locked (used by at least
one sequence; it may hold a key or not). Life of a block: `take` -> locked without key -> `commit`
gives it a key once its K/V are written -> `release` -> cached -> matched and locked again, or
evicted when `take` finds nothing free.

Example, block size 2, keys A, B (child of A), C (child of A): two sequences compute A at once, in
blocks 0 and 5. The first commits A as block 0; the second's `commit(5, A)` frees block 5 and
returns 0, which both now use. B goes to block 1, C to block 2; after both are released, 1 and 2 are
leaves; A becomes one when both are evicted.

Invariants (`check`): free + cached + locked = total; a cached block's parent is cached, and is
used by at least as many sequences; the evictor's candidates are exactly the leaves; no key without
a block.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker_svc.kv.base import Counts, Delta, Evictor, InvariantError, Key, require
from worker_svc.kv.delta_log import DeltaLog


@dataclass(frozen=True, slots=True)
class Match:
    """A cached chain, root first. `idle` of its blocks count as available until they are locked."""

    blocks: list[int]
    idle: int


class BlockPool:
    """Not thread-safe; owned by the engine's thread. All methods O(blocks they are given)."""

    def __init__(self, blocks: int, evictor: Evictor) -> None:
        self.total = blocks
        self.evictions = 0
        self._evictor = evictor
        self._free = list(range(blocks - 1, -1, -1))
        self._idle = 0
        self._users = [0] * blocks
        self._children = [0] * blocks
        self._key: list[Key | None] = [None] * blocks
        self._parent: list[int | None] = [None] * blocks
        self._cached: dict[Key, int] = {}
        self._log = DeltaLog()
        # Leaves hinted never to be used again, oldest hint first; candidates of the evictor all the
        # same.
        self._dead: OrderedDict[int, None] = OrderedDict()
        self._hinted = bytearray(blocks)

    def available(self) -> int:
        """Blocks that `take` could hand out now: every idle cached block becomes a leaf once its
        children went.
        """
        return len(self._free) + self._idle

    def match(self, keys: Sequence[Key], limit: int) -> Match:
        """Read-only: the longest cached chain among the first `limit` keys."""
        blocks: list[int] = []
        idle = 0
        cached, users = self._cached, self._users
        for key in keys[:limit]:
            block = cached.get(key)
            if block is None:
                break
            blocks.append(block)
            idle += not users[block]
        return Match(blocks, idle)

    def lock(self, blocks: Sequence[int], *, hit: bool = True) -> None:
        """One more user for each of a matched chain, root first. `hit`: a request uses them (not a
        mere look ahead).
        """
        users, evictor = self._users, self._evictor
        for block in blocks:
            if not users[block]:
                self._idle -= 1
                if not self._children[block]:
                    evictor.leaf_off(block)
                    self._dead.pop(block, None)
            users[block] += 1
            if hit:
                self._hinted[block] = 0
                evictor.hit(block)

    def take(self, count: int) -> list[int]:
        """`count` blocks with one user and no key; evicts as needed. `count` must not exceed
        `available()`.
        """
        require(count <= self.available(), "more blocks taken than available")
        taken = [self._free.pop() if self._free else self._evict() for _ in range(count)]
        for block in taken:
            self._users[block] = 1
        return taken

    def commit(self, block: int, key: Key, parent: int | None) -> int:
        """Caches a taken block whose K/V are complete; returns the block that holds `key` from now
        on.

        That is another one if the key is cached already: the caller's block is freed and it becomes
        a user of the other. `parent` is the (canonical) block right before, None at the start. A
        block whose parent is not cached stays private.
        """
        require(self._key[block] is None and self._users[block] == 1, "commit of a block not taken")
        twin = self._cached.get(key)
        if twin is not None:
            self._users[block] = 0
            self._free.append(block)
            self.lock((twin,))
            return twin
        if parent is not None:
            if self._key[parent] is None:
                return block
            self._children[parent] += 1
        self._cached[key] = block
        self._key[block] = key
        self._parent[block] = parent
        self._hinted[block] = 0
        self._evictor.insert(block, key, parent)
        self._log.store(key)
        return block

    def release(self, blocks: Sequence[int], dead_from: int | None = None) -> None:
        """One user less for each block of a chain (given root first). From index `dead_from` on
        they are hinted dead: nobody is expected to use them again, so they go first under every
        evictor.
        """
        users, keys, evictor = self._users, self._key, self._evictor
        for index in range(len(blocks) - 1, -1, -1):
            block = blocks[index]
            require(users[block] > 0, "release of a block nobody uses")
            users[block] -= 1
            if users[block]:
                continue
            if keys[block] is None:
                self._free.append(block)
                continue
            self._idle += 1
            evictor.release(block)
            if dead_from is not None and index >= dead_from:
                self._hinted[block] = 1
            if not self._children[block]:
                self._leaf_on(block)

    def discard(self, blocks: Sequence[int], keep: int) -> None:
        """Releases a chain and forgets what it cached behind its first `keep` blocks, where nobody
        else uses it.
        """
        self.release(blocks)
        for block in reversed(blocks[keep:]):
            if (
                self._key[block] is not None
                and not self._users[block]
                and not self._children[block]
            ):
                self._forget_leaf(block)
                self._free.append(block)

    def flush(self) -> None:
        """Forgets every cached block that nobody uses."""
        while (block := self._evictor.pop()) is not None:
            self._dead.pop(block, None)
            self._forget(block)
            self._free.append(block)
        self._log.flush(self._cached)

    def evict(self) -> None:
        """Frees one leaf, the evictor's choice. There must be one."""
        self._free.append(self._evict())

    def take_delta(self) -> Delta:
        """What changed since the last call."""
        return self._log.take()

    def counts(self) -> Counts:
        idle, free = self._idle, len(self._free)
        return Counts(free, idle, self.total - free - idle, self.total, len(self._evictor))

    def is_free(self, block: int) -> bool:
        """It holds nothing and nobody uses it."""
        return self._key[block] is None and not self._users[block]

    def keys(self) -> tuple[Key, ...]:
        """All cached keys, parents before children."""
        return tuple(self._cached)

    def _leaf_on(self, block: int) -> None:
        self._evictor.leaf_on(block)
        if self._hinted[block]:
            self._dead[block] = None

    def _evict(self) -> int:
        self.evictions += 1
        if self._dead:
            block = next(iter(self._dead))
            self._forget_leaf(block)
            return block
        victim = self._evictor.pop()
        if victim is None:
            raise InvariantError("nothing to evict though blocks are available")
        self._forget(victim)
        return victim

    def _forget_leaf(self, block: int) -> None:
        self._evictor.remove(block)
        self._dead.pop(block, None)
        self._forget(block)

    def _forget(self, block: int) -> None:
        """Takes a leaf, which the evictor has let go of already, out of the tree."""
        key, parent = self._key[block], self._parent[block]
        del self._cached[key]
        self._key[block] = self._parent[block] = None
        self._idle -= 1
        self._log.remove(key)
        if parent is not None:
            children = self._children
            children[parent] -= 1
            if not children[parent] and not self._users[parent]:
                self._leaf_on(parent)

    def check_users(self, users: Mapping[int, int]) -> None:
        """Raises `InvariantError` unless exactly `users[block]` sequences use each block."""
        found = {block: count for block, count in enumerate(self._users) if count}
        require(found == dict(users), "blocks are used by others than their owners")

    def check(self) -> None:
        """Raises `InvariantError` if anything is inconsistent. O(blocks)."""
        self._evictor.check()
        users, keys = self._users, self._key
        children = [0] * self.total
        leaves = idle = locked = 0
        for block in range(self.total):
            locked += users[block] > 0
            key, parent = keys[block], self._parent[block]
            if key is None:
                require(parent is None, f"block {block} has a parent but no key")
                continue
            require(self._cached.get(key) == block, f"key of block {block} leads elsewhere")
            idle += not users[block]
            leaves += not users[block] and not self._children[block]
            if parent is not None:
                children[parent] += 1
                require(keys[parent] is not None, f"block {block} outlived its parent")
                require(users[parent] >= users[block], f"block {block} has more users than parent")
        require(children == self._children, "children are miscounted")
        require(len(self._cached) == sum(key is not None for key in keys), "a key has no block")
        require(idle == self._idle, "idle blocks are miscounted")
        require(leaves == len(self._evictor), "candidates are not the leaves")
        require(len(set(self._free)) == len(self._free), "a block is free twice")
        require(all(not users[b] and keys[b] is None for b in self._free), "a free block is in use")
        require(len(self._free) + idle + locked == self.total, "a block is lost")
        require(
            all(not users[b] and not self._children[b] for b in self._dead), "a dead block lives"
        )
