"""Candidates ordered by a rank, lowest first: a binary heap with stale entries left in place."""

from __future__ import annotations

import heapq

from worker_svc.kv.base import require

Rank = int | float | tuple[int, ...]


class LeafHeap:
    """O(log n) add and pop, O(1) discard. Stale entries are swept when they outnumber the live
    ones.
    """

    __slots__ = ("_entries", "_live")

    def __init__(self) -> None:
        self._entries: list[tuple[Rank, int]] = []
        self._live: dict[int, Rank] = {}

    def add(self, block: int, rank: Rank) -> None:
        """Ranks of one heap are all of one kind and no two live ones are equal, so that order is
        total.
        """
        self._live[block] = rank
        heapq.heappush(self._entries, (rank, block))

    def discard(self, block: int) -> bool:
        """True if it was there."""
        if self._live.pop(block, None) is None:
            return False
        if len(self._entries) > 64 + 2 * len(self._live):
            self._entries = [(rank, block) for block, rank in self._live.items()]
            heapq.heapify(self._entries)
        return True

    def pop(self) -> int | None:
        """Takes out the block of lowest rank."""
        entries, live = self._entries, self._live
        while entries:
            rank, block = heapq.heappop(entries)
            if live.get(block) == rank:
                del live[block]
                return block
        return None

    def blocks(self) -> list[int]:
        """All of them, in the order in which they were added."""
        return list(self._live)

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, block: int) -> bool:
        return block in self._live

    def check(self) -> None:
        entries = set(self._entries)
        for block, rank in self._live.items():
            require((rank, block) in entries, f"leaf heap: block {block} has no entry")
        require(len(self._entries) <= 65 + 2 * len(self._live), "leaf heap: stale entries pile up")
