"""Least outstanding requests: over the whole fleet, or of two workers drawn at random."""

from __future__ import annotations

from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.confirm import by_outstanding, cheapest, confirm


class LeastLoad(Policy):
    """The worker with the fewest outstanding requests (join the shortest queue)."""

    name = "least_load"

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        costs = by_outstanding(fleet.candidates)
        return cheapest(request, fleet, costs, rng, "fewest outstanding requests")


class PowerOfTwo(Policy):
    """The less loaded of two distinct workers drawn at random (Mitzenmacher, 2001)."""

    name = "power_of_two"

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        size = len(fleet.candidates)
        if size == 1:
            return confirm(request, fleet, 0, "the only worker")
        first = rng.randrange(size)
        second = (first + 1 + rng.randrange(size - 1)) % size
        costs = by_outstanding(fleet.candidates)
        chosen = first if costs[first] <= costs[second] else second
        return confirm(request, fleet, chosen, "less loaded of two drawn at random", costs)
