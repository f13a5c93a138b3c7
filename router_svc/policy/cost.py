"""The LBGR+ cost of sending a request to a worker: the one Python source of the formula.

Its twin in Redis is `cost` and `choose` in `cache_index/lua/ledger.lua`.

    E_i   = Q_i + (1 + kappa * w_i) * c_i + D_i
    c_i   = max(0.5, base + (a_hit * h + a_miss * m) / 1000)
            + attention * a_miss / 1000 * m * (L - m / 2)          prefill, ms
    D_i   = 0.5 * (O - 1) * (t0 + s * (2 n_i + 1))                 decode, to itself and others, ms
    kappa = min(16, 3 + 10 * min_j Q_j / 1 s)                      what a miss costs everybody else
    w_i   = ((H - h_i) / max(1, n) + (L - H)) / m_i, 1 if m_i = 0  hot-prefix discount

with L prompt tokens, h_i hit, m_i = L - h_i miss, H = max h_i, n arrivals of the deepest cached
block, O expected output, n_i outstanding requests. A token that others hold and this worker misses
is an investment repaid by n re-uses, hence w.
"""

from __future__ import annotations

from collections.abc import Iterable

from router_svc.policy.base import Candidate, Costs, Fleet, Price, Request

KAPPA_BASE, KAPPA_PER_SECOND, KAPPA_MAX = 3.0, 10.0, 16.0
MIN_PREFILL_MS, MIN_MISS_MS, MIN_STEP_BASE_MS, MIN_STEP_MS = 0.5, 0.1, 1.0, 0.01


def prefill_ms(costs: Costs, prompt_tokens: int, hit: int) -> float:
    """c_i: predicted service time of the prompt. At least one token is always computed."""
    hit = min(hit, prompt_tokens - 1)
    miss = prompt_tokens - hit
    per_miss = max(MIN_MISS_MS, costs.miss_ms)
    linear = costs.base_ms + (max(0.0, costs.hit_ms) * hit + per_miss * miss) / 1000.0
    attention = costs.attention * per_miss / 1000.0 * miss * (prompt_tokens - miss / 2)
    return max(MIN_PREFILL_MS, linear) + attention


def decode_ms(costs: Costs, outstanding: int, mean_output: float) -> float:
    """D_i: half the expected decode steps, priced for the request and for those it slows down."""
    base, per_request = max(MIN_STEP_BASE_MS, costs.step_base_ms), max(MIN_STEP_MS, costs.step_ms)
    return 0.5 * (mean_output - 1.0) * (base + per_request * (2 * outstanding + 1))


def kappa(queues_ms: Iterable[float]) -> float:
    """What a miss costs the rest of the fleet, growing with the least queue of any worker."""
    return min(KAPPA_MAX, KAPPA_BASE + KAPPA_PER_SECOND * min(queues_ms) / 1000.0)


def miss_weight(prompt_tokens: int, hit: int, best_hit: int, reuse: float) -> float:
    """w_i: the share of a miss that is a cost and not an investment."""
    miss = prompt_tokens - hit
    if miss <= 0:
        return 1.0
    return ((best_hit - hit) / max(1.0, reuse) + (prompt_tokens - best_hit)) / miss


def total_ms(
    queue_ms: float, kappa: float, miss_weight: float, prefill_ms: float, decode_ms: float
) -> float:
    """E_i."""
    return queue_ms + (1.0 + kappa * miss_weight) * prefill_ms + decode_ms


def price(
    candidate: Candidate,
    request: Request,
    fleet: Fleet,
    *,
    kappa: float,
    best_hit: int,
) -> Price:
    """All terms of E for one candidate."""
    length = request.prompt_tokens
    prefill = prefill_ms(candidate.costs, length, candidate.hit)
    decode = decode_ms(candidate.costs, candidate.outstanding, fleet.mean_output)
    weight = miss_weight(length, candidate.hit, best_hit, request.reuse)
    cost = total_ms(candidate.queue_ms, kappa, weight, prefill, decode)
    return Price(candidate, length - candidate.hit, prefill, decode, weight, cost)


def priced(
    request: Request, fleet: Fleet, candidates: Iterable[Candidate]
) -> tuple[float, tuple[Price, ...]]:
    """kappa of the whole fleet, and the price of each of `candidates`."""
    factor = kappa(candidate.queue_ms for candidate in fleet.candidates)
    best = max(candidate.hit for candidate in fleet.candidates)
    return factor, tuple(
        price(candidate, request, fleet, kappa=factor, best_hit=best) for candidate in candidates
    )
