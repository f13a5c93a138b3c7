"""The cache-aware policy of SGLang's router: follow a long match, or balance.

Rule (`sgl-model-gateway`, policy `cache_aware`): if the loads differ by more than `balance_abs`
requests and by more than a factor `balance_rel`, the least loaded worker; else the longest match if
it covers more than `threshold` of the prompt; else the worker with the smallest tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Price, Request
from router_svc.policy.confirm import by_outstanding, cheapest
from router_svc.policy.per_worker import PerWorker


@dataclass(frozen=True, slots=True)
class CacheAwareOptions:
    """SGLang's defaults. With the threshold at 0.5, prompts that share exactly half never match."""

    threshold: float = 0.5
    balance_abs: int = 32
    balance_rel: float = 1.0001


class CacheAware(Policy):
    """Tree sizes are the tokens this router sent to each worker without a match there: SGLang's
    approximate tree grows by just those.
    """

    name = "cache_aware"

    def __init__(self, options: CacheAwareOptions | None = None) -> None:
        self._options = options or CacheAwareOptions()
        self._tree = PerWorker()

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        candidates, options = fleet.candidates, self._options
        most = max(candidate.outstanding for candidate in candidates)
        fewest = min(candidate.outstanding for candidate in candidates)
        if most - fewest > options.balance_abs and most > options.balance_rel * fewest:
            costs = by_outstanding(candidates)
            return cheapest(request, fleet, costs, rng, "loads are out of balance: least loaded")
        best = max(candidate.hit for candidate in candidates)
        if best > options.threshold * request.prompt_tokens:
            costs = [float(-candidate.hit) for candidate in candidates]
            return cheapest(request, fleet, costs, rng, "longest match, above the threshold")
        costs = [self._tree.get(candidate.worker_id) for candidate in candidates]
        return cheapest(request, fleet, costs, rng, "no match above the threshold: smallest tree")

    def on_book(self, request: Request, price: Price) -> None:
        self._tree.add(price.candidate.worker_id, price.miss)
