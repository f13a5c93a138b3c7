"""DualMap: two hashes of the prompt's first tokens give two workers; the less busy one takes it."""

from __future__ import annotations

from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.confirm import confirm, least
from router_svc.policy.hashing import rendezvous


class DualMap(Policy):
    """Of two owners by independent hashes, the one with less pending prefill, own misses included:
    affinity to two workers, and the balance of two choices.
    """

    name = "dualmap"

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        candidates = fleet.candidates
        if len(candidates) == 1:
            return confirm(request, fleet, 0, "the only worker")
        key = request.prefix_key if request.prefix_key is not None else rng.getrandbits(64)
        indexes = range(len(candidates))
        first = min(indexes, key=lambda i: rendezvous(key, candidates[i].worker_id, 1))
        second = min(
            (i for i in indexes if i != first),
            key=lambda i: rendezvous(key, candidates[i].worker_id, 2),
        )
        costs = [float(one.queued_tokens + request.prompt_tokens - one.hit) for one in candidates]
        chosen = (first, second)[least((costs[first], costs[second]), rng)]
        return confirm(request, fleet, chosen, "less pending prefill of its two owners", costs)
