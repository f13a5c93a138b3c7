"""LMetric: load as a product, with nothing to tune."""

from __future__ import annotations

from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.confirm import cheapest


class LMetric(Policy):
    """`(queued new prefill tokens + own misses) * (outstanding requests + 1)`, lowest wins."""

    name = "lmetric"

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        length = request.prompt_tokens
        costs = [
            float((one.queued_tokens + length - one.hit) * (one.outstanding + 1))
            for one in fleet.candidates
        ]
        return cheapest(request, fleet, costs, rng, "least new tokens times batch size")
