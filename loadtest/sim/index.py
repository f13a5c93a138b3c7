"""What a simulated router knows of the workers' caches: exact but late, or its own guess."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Protocol

from worker_svc.kv.base import Delta


class Index(Protocol):
    """One worker's cache as one router sees it. All times in ms."""

    def match(self, blocks: Sequence[int], now: float) -> int:
        """Leading blocks believed cached."""

    def sent(self, blocks: Sequence[int]) -> None:
        """The router sends a prompt of these blocks to the worker."""

    def computed(self, blocks: Sequence[int]) -> None:
        """That prompt is computed, or lost: events tell the rest."""

    def changed(self, delta: Delta, now: float) -> None:
        """The worker's cache changed at `now`."""

    def clear(self) -> None:
        """The worker starts anew, empty."""


def longest_prefix(blocks: Sequence[int], known: set[int], coming: dict[int, int]) -> int:
    """Galloping is not worth it at these lengths: bisect over the chain. Sets are prefix-closed."""
    low, high = 0, len(blocks)
    if not high or (blocks[0] not in known and blocks[0] not in coming):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        block = blocks[middle - 1]
        if block in known or block in coming:
            low = middle
        else:
            high = middle - 1
    return low


class EventIndex:
    """Events arrive `delay_ms` late; prompts in flight count as cached."""

    def __init__(self, delay_ms: float = 5.0, in_flight: bool = True) -> None:
        self._delay = delay_ms
        self._in_flight = in_flight
        self._known: set[int] = set()
        self._coming: dict[int, int] = {}
        self._late: deque[tuple[float, Delta]] = deque()

    def match(self, blocks: Sequence[int], now: float) -> int:
        late, known = self._late, self._known
        while late and late[0][0] <= now:
            delta = late.popleft()[1]
            if delta.flushed:
                known.clear()
            known.difference_update(delta.removed)
            known.update(delta.stored)  # type: ignore[arg-type]
        return longest_prefix(blocks, known, self._coming)

    def sent(self, blocks: Sequence[int]) -> None:
        if self._in_flight:
            coming = self._coming
            for block in blocks:
                coming[block] = coming.get(block, 0) + 1

    def computed(self, blocks: Sequence[int]) -> None:
        if self._in_flight:
            coming = self._coming
            for block in blocks:
                count = coming[block] - 1
                if count:
                    coming[block] = count
                else:
                    del coming[block]

    def changed(self, delta: Delta, now: float) -> None:
        self._late.append((now + self._delay, delta))

    def clear(self) -> None:
        self._known.clear()
        self._late.clear()


class HistoryIndex:
    """SGLang's approximate tree: whatever the router sent there is believed cached; evictions are
    not seen. The most recently sent `capacity` blocks are kept.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        # Not a dict: finding the first key of one takes time for every key deleted before it.
        self._sent: OrderedDict[int, None] = OrderedDict()

    def match(self, blocks: Sequence[int], now: float) -> int:
        return longest_prefix(blocks, set(), self._sent)  # type: ignore[arg-type]

    def sent(self, blocks: Sequence[int]) -> None:
        sent = self._sent
        # Leaf first, so that a root is never forgotten before what hangs on it.
        for block in reversed(blocks):
            sent.pop(block, None)
            sent[block] = None
        while len(sent) > self._capacity:
            sent.popitem(last=False)

    def computed(self, blocks: Sequence[int]) -> None:
        pass

    def changed(self, delta: Delta, now: float) -> None:
        pass

    def clear(self) -> None:
        self._sent.clear()
