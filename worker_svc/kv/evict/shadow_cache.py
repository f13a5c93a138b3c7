"""A cache without data that shows what another evictor would have kept."""

from __future__ import annotations

from worker_svc.kv.base import Evictor, Key
from worker_svc.kv.block_pool import BlockPool


class ShadowCache:
    """Of the real cache's capacity, with the same accesses and the same blocks in use. `misses`
    counts its own.
    """

    def __init__(self, capacity: int, evictor: Evictor) -> None:
        self._pool = BlockPool(capacity, evictor)
        self._blocks: dict[Key, int] = {}
        self.misses = 0

    def acquire(self, key: Key, parent: Key | None) -> tuple[Key, ...]:
        """A request starts using `key`; its parent is in use already. Returns what had to go
        for it.
        """
        block = self._blocks.get(key)
        if block is not None:
            self._pool.lock((block,))
            return ()
        self.misses += 1
        (block,) = self._pool.take(1)
        self._pool.commit(block, key, None if parent is None else self._blocks[parent])
        self._blocks[key] = block
        return self._gone()

    def touch(self, key: Key) -> None:
        """Another request uses `key`, which is in use."""
        block = (self._blocks[key],)
        self._pool.lock(block)
        self._pool.release(block)

    def release(self, key: Key) -> None:
        """Nobody uses `key` any more."""
        self._pool.release((self._blocks[key],))

    def shrink(self) -> tuple[Key, ...] | None:
        """Makes room for one block that is to come. Returns what went for it; None: nothing can
        go.
        """
        if not self._pool.counts().leaves:
            return None
        self._pool.evict()
        return self._gone()

    def __contains__(self, key: Key) -> bool:
        return key in self._blocks

    def check(self) -> None:
        self._pool.check()

    def _gone(self) -> tuple[Key, ...]:
        removed = self._pool.take_delta().removed
        for key in removed:
            del self._blocks[key]
        return removed
