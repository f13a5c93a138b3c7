"""The future of a workload: what no evictor or router may know, and every bound needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loadtest.workloads.base import Call

NEVER = 1 << 60


class Future:
    """For every block the calls that use it, by place in the stream. Memory: one entry per use."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._uses: dict[int, list[int]] = {}
        for place, call in enumerate(calls):
            for block in call.blocks:
                self._uses.setdefault(block, []).append(place)
        self._passed: dict[int, int] = {}

    def next_use(self, block: int, after: int) -> int:
        """Place of the first use behind `after`; `NEVER` if there is none. `after` never falls
        between calls for one block: O(1) amortised.
        """
        uses = self._uses.get(block, ())
        index = self._passed.get(block, 0)
        while index < len(uses) and uses[index] <= after:
            index += 1
        self._passed[block] = index
        return uses[index] if index < len(uses) else NEVER

    def last_use(self, block: int) -> int:
        return self._uses[block][-1]


def with_oracle_hints(calls: Iterable[Call], future: Future) -> Iterable[Call]:
    """The calls, each with `dead_from` set to the first block that nobody uses afterwards: an upper
    bound of what hints could do, never something a client knows.
    """
    for place, call in enumerate(calls):
        dead = len(call.blocks)
        while dead and future.last_use(call.blocks[dead - 1]) <= place:
            dead -= 1
        yield replace(call, dead_from=dead)
