"""The few candidates worth pricing: a decision costs the same in a fleet of 10 and of 1,000
workers.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from random import Random

from router_svc.policy.base import Candidate

SIZE = 8


def shortlist(candidates: Sequence[Candidate], rng: Random, size: int = SIZE) -> list[Candidate]:
    """Half of the places for the longest hits, the rest for the shortest queues; ties at random.
    O(candidates).
    """
    if len(candidates) <= size:
        return list(candidates)
    order = [rng.random() for _ in candidates]
    indexes = range(len(candidates))
    by_hit = heapq.nsmallest(size // 2, indexes, key=lambda i: (-candidates[i].hit, order[i]))
    chosen = set(by_hit)
    by_load = heapq.nsmallest(
        size,
        indexes,
        key=lambda i: (candidates[i].queue_ms, candidates[i].outstanding, order[i]),
    )
    for index in by_load:
        if len(chosen) == size:
            break
        chosen.add(index)
    return [candidates[index] for index in sorted(chosen)]
