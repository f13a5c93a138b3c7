"""How often a prefix was asked for lately: n of the hot-prefix discount (`cost.miss_weight`)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

DECAY_S = 2.0


class ArrivalCounter:
    """Exponentially decayed arrivals per key (time constant `decay_s`), the least recently asked
    forgotten first.

    Bounded by `capacity` keys. A router counts only what it sees itself: multiply by the number of
    live routers.
    """

    def __init__(self, capacity: int = 65536, decay_s: float = DECAY_S) -> None:
        self._capacity = capacity
        self._decay_s = decay_s
        self._counts: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def arrive(self, key: int, now: float) -> float:
        """Counts an arrival at `now` (seconds) and returns the decayed count before it. O(1)."""
        return self._count(key, now, 0.0)

    def arrive_prompt(self, keys: Sequence[int], held: int, now: float) -> float:
        """Counts the arrival of a prompt of these block keys, `held` of which some worker has;
        returns n: earlier arrivals of the deepest held block. O(1).

        The first prompt of a new prefix finds nothing held, so nothing deeper than its first block
        can be counted. A deepest block that was never counted therefore starts with that one
        arrival, if the first block saw one lately: a burst is known one prompt earlier.
        """
        if not keys:
            return 0.0
        before = self._count(keys[0], now, 0.0)
        if held == 0:
            return 0.0
        return before if held == 1 else self._count(keys[held - 1], now, min(1.0, before))

    def _count(self, key: int, now: float, unseen: float) -> float:
        count, last = self._counts.pop(key, (unseen, now))
        before = count * math.exp(-max(0.0, now - last) / self._decay_s)
        self._counts[key] = (before + 1.0, now)
        if len(self._counts) > self._capacity:
            self._counts.popitem(last=False)
        return before
