"""The workers of a fleet in order of load, kept up as loads change: a request's shortlist without
a look at the rest.

`shortlist.shortlist` reads every candidate; here the same eight come out of a heap, so that a
decision costs the same among 10 and among 1,000 workers. The least queue of the fleet is always on
the list, so that kappa (`cost.kappa`) is the whole fleet's.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from router_svc.policy.base import Candidate, Fleet
from router_svc.policy.shortlist import SIZE

_Entry = tuple[float, int, int, str]
"""Queue ms, outstanding requests, turn among equals, worker id."""


class LoadBoard:
    """Bounded by the number of workers put and not removed."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._workers: dict[str, Candidate] = {}
        self._entries: dict[str, _Entry] = {}
        self._heap: list[_Entry] = []
        self._turn = 0

    def __len__(self) -> int:
        return len(self._workers)

    def put(self, candidate: Candidate) -> None:
        """A worker's load and costs as they are now; its `hit` does not matter. O(log n)."""
        self._workers[candidate.worker_id] = candidate
        self._push(candidate)

    def remove(self, worker_id: str) -> None:
        """The worker takes no more requests. Unknown ones are passed over. O(1)."""
        self._workers.pop(worker_id, None)
        self._entries.pop(worker_id, None)

    def fleet(self, hits: Mapping[str, int], mean_output: float, size: int = SIZE) -> Fleet | None:
        """At most `size` candidates: half of the places for the longest hits (tokens, per worker),
        the rest for the least loaded, equal ones in turn. None without any worker.
        O(len(hits) + size log n).
        """
        if not self._workers:
            return None
        chosen = self._longest(hits, size // 2)
        popped = []
        while len(chosen) < size and self._heap:
            entry = heapq.heappop(self._heap)
            worker_id = entry[3]
            if self._entries.get(worker_id) is not entry:
                continue
            popped.append(worker_id)
            chosen.setdefault(worker_id, None)
        for worker_id in popped:
            # To the end of the equally loaded: the next request meets other ones.
            self._push(self._workers[worker_id])
        found = [
            replace(self._workers[worker_id], hit=hits.get(worker_id, 0)) for worker_id in chosen
        ]
        return Fleet(found, mean_output)

    def check(self) -> None:
        """Raises AssertionError when the order and the workers disagree. O(n)."""
        live = {entry[3] for entry in self._heap if self._entries.get(entry[3]) is entry}
        if live != set(self._workers) or len(self._heap) > 2 * len(self._workers) + 64:
            raise AssertionError("a worker is missing from the order of loads, or stale ones pile")

    def _longest(self, hits: Mapping[str, int], places: int) -> dict[str, None]:
        known = [
            (-hit, self._rng.random(), worker_id)
            for worker_id, hit in hits.items()
            if hit > 0 and worker_id in self._workers
        ]
        return {entry[2]: None for entry in heapq.nsmallest(places, known)}

    def _push(self, candidate: Candidate) -> None:
        self._turn += 1
        entry = (
            candidate.queue_ms,
            candidate.outstanding,
            self._turn,
            candidate.worker_id,
        )
        self._entries[candidate.worker_id] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._workers) + 64:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)
