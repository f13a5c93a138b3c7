"""Policies that look at nothing: yardsticks, and a way to spread load without caches."""

from __future__ import annotations

from random import Random

from router_svc.policy.base import Candidate, Decision, Fleet, Request
from router_svc.policy.cost import priced
from router_svc.policy.shortlist import SIZE


def _confirmed(request: Request, fleet: Fleet, candidate: Candidate, reason: str) -> Decision:
    """A decision for `candidate` alone; a few others are priced beside it, so that explain records
    can compare.
    """
    beside = [other for other in fleet.candidates if other is not candidate][: SIZE - 1]
    kappa, prices = priced(request, fleet, (candidate, *beside))
    return Decision(prices[0], prices, prices[:1], reason, kappa)


class RoundRobin:
    """Workers in turn, by worker id. Each router counts for itself."""

    name = "round_robin"

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        del rng
        ordered = sorted(fleet.candidates, key=lambda candidate: candidate.worker_id)
        candidate = ordered[self._turn % len(ordered)]
        self._turn += 1
        return _confirmed(request, fleet, candidate, f"turn {self._turn}")


class RandomChoice:
    """Any worker, each as likely."""

    name = "random"

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        candidate = fleet.candidates[rng.randrange(len(fleet.candidates))]
        return _confirmed(request, fleet, candidate, "drawn at random")
