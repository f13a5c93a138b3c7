"""Block ids for generated prompts, and arrival times."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from random import Random


class BlockIds:
    """Hands out fresh ids, and the same ids again for what is shared.

    Memory grows with the shared prefixes alone: ids of one-shot blocks are not remembered.
    """

    def __init__(self) -> None:
        self._next = 0
        self._shared: dict[Hashable, tuple[int, ...]] = {}

    def fresh(self, count: int) -> tuple[int, ...]:
        first = self._next
        self._next += max(0, count)
        return tuple(range(first, self._next))

    def shared(self, name: Hashable, count: int) -> tuple[int, ...]:
        """The ids of a prefix of `count` blocks; always asked for with the same count."""
        found = self._shared.get(name)
        if found is None:
            found = self._shared[name] = self.fresh(count)
        return found


def poisson(rate: float, rng: Random) -> Iterator[float]:
    """Arrival times of a Poisson process, in seconds; `rate` per second."""
    now = 0.0
    while True:
        now += rng.expovariate(rate)
        yield now
