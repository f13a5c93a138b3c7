"""How often a prefix was asked for lately: n of the hot-prefix discount (`cost.miss_weight`)."""

from __future__ import annotations

import math
from collections import OrderedDict

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
        count, last = self._counts.pop(key, (0.0, now))
        before = count * math.exp(-max(0.0, now - last) / self._decay_s)
        self._counts[key] = (before + 1.0, now)
        if len(self._counts) > self._capacity:
            self._counts.popitem(last=False)
        return before
