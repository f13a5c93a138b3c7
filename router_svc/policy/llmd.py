"""The default scorers of llm-d's inference scheduler: prefix cache 3, queue 2."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.confirm import cheapest


@dataclass(frozen=True, slots=True)
class LlmdOptions:
    """Weights of the scorers."""

    prefix_weight: float = 3.0
    queue_weight: float = 2.0


class Llmd(Policy):
    """Highest weighted sum of two scores in [0, 1]: matched share of the prompt, and how short the
    waiting queue is between the fleet's longest (0) and shortest (1).
    """

    name = "llmd"

    def __init__(self, options: LlmdOptions | None = None) -> None:
        self._options = options or LlmdOptions()

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        candidates, options = fleet.candidates, self._options
        most = max(candidate.waiting for candidate in candidates)
        spread = most - min(candidate.waiting for candidate in candidates)
        costs = []
        for candidate in candidates:
            prefix = candidate.hit / request.prompt_tokens
            queue = (most - candidate.waiting) / spread if spread else 1.0
            costs.append(-(options.prefix_weight * prefix + options.queue_weight * queue))
        return cheapest(request, fleet, costs, rng, "highest score of prefix and queue")
