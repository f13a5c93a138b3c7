"""Prefixes that are being computed right now: they count as cached where they are computed.

Without this a burst of requests with one new prefix spreads over the fleet, and every worker
computes the prefix for itself: events tell of blocks only once they are written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cache_index.base import IndexKey, WorkerId

PER_PREFIX = 64
"""Requests looked at per first block: the newest ones. More would say little new."""


class InFlight:
    """The keys of requests on their way, by their first block. Pure; bounded by the open requests.

    Keys are cumulative, so equal keys at one position mean equal prefixes up to there, and the
    common length of two requests is found by bisection.
    """

    def __init__(self) -> None:
        self._by_first: dict[IndexKey, OrderedDict[int, tuple[WorkerId, Sequence[IndexKey]]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return sum(map(len, self._by_first.values()))

    @contextmanager
    def computing(self, worker: WorkerId, keys: Sequence[IndexKey]) -> Iterator[None]:
        """While open, `worker` counts as holding the blocks of `keys`. O(1)."""
        if not keys:
            yield
            return
        self._count += 1
        number = self._count
        group = self._by_first.setdefault(keys[0], OrderedDict())
        group[number] = (worker, keys)
        try:
            yield
        finally:
            del group[number]
            if not group:
                del self._by_first[keys[0]]

    def match(self, keys: Sequence[IndexKey]) -> dict[WorkerId, int]:
        """Leading blocks of `keys` each worker is computing. O(PER_PREFIX * log(len(keys)))."""
        found: dict[WorkerId, int] = {}
        group = self._by_first.get(keys[0]) if keys else None
        if group is None:
            return found
        for _, (worker, others) in zip(range(PER_PREFIX), reversed(group.values()), strict=False):
            known = found.get(worker, 0)
            common = common_blocks(keys, others)
            if common > known:
                found[worker] = common
        return found


def common_blocks(keys: Sequence[IndexKey], others: Sequence[IndexKey]) -> int:
    """Length of the common prefix of two cumulative key sequences. O(log(shorter))."""
    low, high = 0, min(len(keys), len(others))
    while low < high:
        middle = (low + high + 1) // 2
        if keys[middle - 1] == others[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
