"""Policies that look at nothing: yardsticks, and a way to spread load without caches."""

from __future__ import annotations

from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.confirm import confirm


class RoundRobin(Policy):
    """Workers in turn, by worker id. Each router counts for itself."""

    name = "round_robin"

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        del rng
        candidates = fleet.candidates
        ordered = sorted(range(len(candidates)), key=lambda index: candidates[index].worker_id)
        index = ordered[self._turn % len(ordered)]
        self._turn += 1
        return confirm(request, fleet, index, f"turn {self._turn}")


class RandomChoice(Policy):
    """Any worker, each as likely."""

    name = "random"

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        return confirm(request, fleet, rng.randrange(len(fleet.candidates)), "drawn at random")
