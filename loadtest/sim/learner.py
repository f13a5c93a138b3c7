"""The ledger's learner in plain Python: twin of `observe` in `cache_index/lua/ledger.lua`.

Recursive least squares with forgetting on service times that workers report: prefill ms on
[1, hit / 1000, miss / 1000] without its attention part, decode step ms on [1, batch].
"""

from __future__ import annotations

import math

from router_svc.policy.base import Costs

FORGET_PREFILL, FORGET_DECODE, FORGET_OUTPUT = 0.998, 0.995, 0.99
COVARIANCE_CAP = 1e6
PRIOR_PREFILL = (1.0, 1.0, 400.0)
PRIOR_DECODE = (100.0, 1.0)


class Rls:
    """theta towards y on x; P starts as a diagonal."""

    def __init__(self, theta: list[float], variances: tuple[float, ...], forget: float) -> None:
        size = len(theta)
        self.theta = theta
        self._forget = forget
        self._p = [[variances[i] if i == j else 0.0 for j in range(size)] for i in range(size)]

    def learn(self, x: tuple[float, ...], y: float) -> None:
        p, theta, size = self._p, self.theta, len(x)
        gain = [sum(p[i][j] * x[j] for j in range(size)) for i in range(size)]
        denominator = self._forget + sum(x[i] * gain[i] for i in range(size))
        error = y - sum(theta[i] * x[i] for i in range(size))
        for i in range(size):
            theta[i] += gain[i] / denominator * error
        for i in range(size):
            for j in range(i, size):
                value = (p[i][j] - gain[i] * gain[j] / denominator) / self._forget
                p[i][j] = p[j][i] = value
        for i in range(size):
            if p[i][i] > COVARIANCE_CAP:
                factor = math.sqrt(COVARIANCE_CAP / p[i][i])
                for j in range(size):
                    p[i][j] *= factor
                    p[j][i] *= factor


class Learner:
    """Costs of every worker, and the running mean of output lengths, shared by all routers."""

    def __init__(self, workers: int, prior: Costs, enabled: bool = True) -> None:
        self._enabled = enabled
        self._prior = prior
        self._output, self._weight = 0.0, 0.0
        self.costs = [prior] * workers
        self._prefill = [self._new_prefill(prior) for _ in range(workers)]
        self._decode = [self._new_decode(prior) for _ in range(workers)]

    @property
    def mean_output(self) -> float:
        return self._output / self._weight if self._weight else 32.0

    def observe(
        self,
        worker: int,
        hit: int,
        miss: int,
        prefill_ms: float,
        batch: float,
        step_ms: float,
        output: int,
    ) -> None:
        """What a finished request cost its worker; a time of 0: no such part."""
        self._output = self._output * FORGET_OUTPUT + output
        self._weight = self._weight * FORGET_OUTPUT + 1.0
        if not self._enabled:
            return
        ratio, prefill = self._prior.attention, self._prefill[worker]
        if prefill_ms > 0:
            attention = ratio * max(0.1, prefill.theta[2]) * 1e-3 * miss * (hit + miss / 2)
            prefill.learn((1.0, hit * 1e-3, miss * 1e-3), prefill_ms - attention)
        decode = self._decode[worker]
        if step_ms > 0:
            decode.learn((1.0, batch), step_ms)
        base, hit_ms, miss_ms = prefill.theta
        self.costs[worker] = Costs(base, hit_ms, miss_ms, ratio, *decode.theta)

    def restart(self, worker: int) -> None:
        """The worker begins anew with the weights it had; its uncertainty is reopened."""
        costs = self.costs[worker]
        self._prefill[worker] = self._new_prefill(costs)
        self._decode[worker] = self._new_decode(costs)

    @staticmethod
    def _new_prefill(costs: Costs) -> Rls:
        return Rls([costs.base_ms, costs.hit_ms, costs.miss_ms], PRIOR_PREFILL, FORGET_PREFILL)

    @staticmethod
    def _new_decode(costs: Costs) -> Rls:
        return Rls([costs.step_base_ms, costs.step_ms], PRIOR_DECODE, FORGET_DECODE)
