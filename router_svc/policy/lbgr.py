"""LBGR as published: learning-based greedy routing (Wu, Silwal, Zhang, arXiv 2601.18999, section
4).

    argmin_i  y_i + P_i + theta_i,     y_i = max(1, a_miss * (L - h_i) + a_hit * h_i)

P_i, the load, adds y at dispatch, is multiplied by rho every `interval_ms` (31/32 every 20 ms in
the authors' code), and gives back at completion what is left of y after that decay. theta_i, the
bias, is learned by recursive least squares with forgetting on the residual of end-to-end latency:
latency - (y + P at dispatch). `miss_ms` is the authors' unit, 1 ms per character, at 4.5 characters
per token; `bias=0` and `decay=1` switch the two mechanisms off. For comparison only: `lbgr_plus`
has the repaired rule.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from random import Random

from router_svc.policy.base import Decision, Ended, Fleet, Policy, Price, Request
from router_svc.policy.confirm import confirm, least

MAX_WORKERS = 4096
PRIOR_VARIANCE = 1e6


@dataclass(frozen=True, slots=True)
class LbgrOptions:
    """`miss_ms`, `hit_ms` per token; `decay` per `interval_ms`, 1 for none; `bias`: 0 or 1."""

    miss_ms: float = 4.5
    hit_ms: float = 0.0
    decay: float = 31 / 32
    interval_ms: float = 20.0
    bias: float = 1.0
    forgetting: float = 0.992


class _Load:
    """P and theta of one worker."""

    __slots__ = ("bias", "since_ms", "value", "variance")

    def __init__(self) -> None:
        self.value = 0.0
        self.since_ms = 0.0
        self.bias = 0.0
        self.variance = PRIOR_VARIANCE

    def decay(self, now_ms: float, options: LbgrOptions) -> None:
        intervals = math.floor((now_ms - self.since_ms) / options.interval_ms)
        if intervals > 0:
            self.value *= options.decay**intervals
            self.since_ms += intervals * options.interval_ms

    def learn(self, residual_ms: float, forgetting: float) -> None:
        """One step of scalar recursive least squares."""
        gain = self.variance / (forgetting + self.variance)
        self.bias += gain * (residual_ms - self.bias)
        self.variance = min(PRIOR_VARIANCE, (1.0 - gain) * self.variance / forgetting)


class Lbgr(Policy):
    """Keeps the load of the requests this router sent; needs `now`, `on_book` and `on_end`."""

    name = "lbgr"

    def __init__(self, options: LbgrOptions | None = None) -> None:
        self._options = options or LbgrOptions()
        self._loads: OrderedDict[str, _Load] = OrderedDict()

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        costs, loads = [], []
        for candidate in fleet.candidates:
            load = self._decayed(candidate.worker_id, request.now)
            own = self._own_ms(request.prompt_tokens - candidate.hit, candidate.hit)
            loads.append(load.value)
            costs.append(own + load.value + self._options.bias * load.bias)
        index = least(costs, rng)
        decision = confirm(request, fleet, index, "least cost, load and bias", costs)
        chosen = replace(decision.chosen, load=loads[index])
        return replace(
            decision, chosen=chosen, prices=(chosen, *decision.prices[1:]), shortlist=(chosen,)
        )

    def on_book(self, request: Request, price: Price) -> None:
        load = self._decayed(price.candidate.worker_id, request.now)
        load.value += self._own_ms(price.miss, price.candidate.hit)

    def on_end(self, ended: Ended) -> None:
        options, price = self._options, ended.price
        own = self._own_ms(price.miss, price.candidate.hit)
        load = self._decayed(price.candidate.worker_id, ended.now)
        latency = (ended.now - ended.request.now) * 1000.0
        left = options.decay ** math.floor(latency / options.interval_ms)
        load.value = max(0.0, load.value - own * left)
        if not ended.failed:
            load.learn(max(1.0, latency - (own + price.load)), options.forgetting)

    def _own_ms(self, miss: int, hit: int) -> float:
        return max(1.0, self._options.miss_ms * miss + self._options.hit_ms * hit)

    def _decayed(self, worker_id: str, now: float) -> _Load:
        load = self._loads.get(worker_id)
        if load is None:
            load = self._loads[worker_id] = _Load()
            load.since_ms = now * 1000.0
            if len(self._loads) > MAX_WORKERS:
                self._loads.popitem(last=False)
        load.decay(now * 1000.0, self._options)
        return load
