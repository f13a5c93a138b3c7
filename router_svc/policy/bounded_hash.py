"""Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2016) on the prompt's
first tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.confirm import confirm
from router_svc.policy.hashing import rendezvous


@dataclass(frozen=True, slots=True)
class BoundedHashOptions:
    """`bound`: a worker may hold this times the mean number of outstanding requests."""

    bound: float = 1.25


class BoundedHash(Policy):
    """The first worker in the key's order that has room under `ceil(bound * (n + 1) / M)`.

    Never sees the index. The workers of a key are ordered by rendezvous hashing, so that the next
    one differs from key to key.
    """

    name = "bounded_hash"

    def __init__(self, options: BoundedHashOptions | None = None) -> None:
        self._options = options or BoundedHashOptions()

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        candidates = fleet.candidates
        key = request.prefix_key if request.prefix_key is not None else rng.getrandbits(64)
        total = 1 + sum(candidate.outstanding for candidate in candidates)
        room = math.ceil(self._options.bound * total / len(candidates))
        order = sorted(
            range(len(candidates)), key=lambda i: rendezvous(key, candidates[i].worker_id)
        )
        for place, index in enumerate(order):
            if candidates[index].outstanding + 1 <= room:
                return confirm(request, fleet, index, f"place {place} of its hash order")
        return confirm(request, fleet, order[0], "first of its hash order; all are full")
