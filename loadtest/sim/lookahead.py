"""Look-ahead locks: what queued requests will hit is not evicted while they wait.

A queued request locks the cached prefix of its prompt, root first, and more of it as blocks appear;
all locks together hold at most half of the cache; when the head of the queue does not fit, locks
are shed from the tail. Locking is no use: recency stays as it is.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from loadtest.workloads.base import Call
from worker_svc.kv.block_pool import BlockPool

SHARE = 0.5


@dataclass(slots=True)
class _Entry:
    call: Call
    blocks: list[int] = field(default_factory=list)


class LookAhead:
    """Locks of one worker's queue."""

    def __init__(self, pool: BlockPool, share: float = SHARE) -> None:
        self._pool = pool
        self._most = int(pool.total * share)
        self._queue: OrderedDict[int, _Entry] = OrderedDict()
        self._counts: dict[int, int] = {}

    def add(self, call: Call) -> None:
        entry = self._queue[call.number] = _Entry(call)
        self._grow(entry)

    def drop(self, call: Call) -> None:
        """The request is admitted (its own locks hold now) or gone."""
        entry = self._queue.pop(call.number, None)
        if entry is not None:
            self._release(entry)

    def extend(self) -> None:
        """Blocks may have appeared, or room: lock more of what is queued."""
        for entry in self._queue.values():
            if len(self._counts) >= self._most:
                return
            self._grow(entry)

    def shed(self, keep: Call) -> bool:
        """Gives up the locks of the last queued request that holds any, but `keep`'s."""
        for number in reversed(self._queue):
            entry = self._queue[number]
            if number != keep.number and entry.blocks:
                self._release(entry)
                return True
        entry = self._queue.get(keep.number, _Entry(keep))
        if entry.blocks:
            self._release(entry)
            return True
        return False

    def clear(self) -> None:
        for entry in self._queue.values():
            self._release(entry)
        self._queue.clear()

    def _grow(self, entry: _Entry) -> None:
        held, blocks = len(entry.blocks), entry.call.blocks
        end = entry.call.prompt_blocks
        if held >= end or not self._pool.match(blocks[held : held + 1], 1).blocks:
            return
        for block in self._pool.match(blocks[held:end], end - held).blocks:
            if block not in self._counts:
                if len(self._counts) >= self._most:
                    return
                self._counts[block] = 0
            self._counts[block] += 1
            self._pool.lock((block,), hit=False)
            entry.blocks.append(block)

    def _release(self, entry: _Entry) -> None:
        for block in entry.blocks:
            self._counts[block] -= 1
            if not self._counts[block]:
                del self._counts[block]
        self._pool.release(entry.blocks)
        entry.blocks.clear()
