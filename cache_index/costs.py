"""The LBGR+ cost of sending a request to a worker: pure Python twin of `cost` and `pick` in
lua/ledger.lua.

E_i = Q_i + (1 + kappa * w_i) * c_i + D_i in milliseconds (algorithms: LBGR+), where for a prompt of
L tokens with h cached on worker i and m = L - h missing

    c_i   = max(0.5, b + (a_hit * h + a_miss * m) / 1000) + q * m * (L - m / 2),   q = qr * a_miss /
    1000 D_i   = 0.5 * (O - 1) * (t0 + s * (2 * n_i + 1)) kappa = min(16, 3 + 10 * min_j Q_j / 1 s)

Q: booked prefill whose first token has not come; n: outstanding requests; O: mean output length; w:
the share of a miss that is not an investment in later hits (1 without the hot-prefix discount).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

KAPPA_BASE = 3.0
KAPPA_PER_SECOND = 10.0
KAPPA_MAX = 16.0
DEFAULT_OUTPUT = 32.0
TIE_MS = 1e-6


@dataclass(frozen=True, slots=True)
class LearnedCosts:
    """One worker's learned weights: `b`, `t0`, `s` in ms, `a_hit`, `a_miss` in ms per 1000 tokens,
    `qr` per token.
    """

    b: float = 2.0
    a_hit: float = 0.0
    a_miss: float = 110.0
    qr: float = 3.2e-5
    t0: float = 20.0
    s: float = 0.3

    def prefill_ms(self, prompt_tokens: int, hit: int) -> float:
        """c_i. A whole hit still computes the last token."""
        hit = min(hit, prompt_tokens - 1)
        miss = prompt_tokens - hit
        a_miss, a_hit = max(0.1, self.a_miss), max(0.0, self.a_hit)
        linear = self.b + (a_hit * hit + a_miss * miss) * 1e-3
        return max(0.5, linear) + self.qr * a_miss * 1e-3 * miss * (prompt_tokens - miss / 2)

    def decode_ms(self, mean_output: float, outstanding: float) -> float:
        """D_i: what decoding costs the request itself and the `outstanding` others."""
        step = max(1.0, self.t0) + max(0.01, self.s) * (2 * outstanding + 1)
        return 0.5 * (mean_output - 1) * step


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that a request may go to: ledger slot, cached prompt tokens, miss weight w."""

    slot: int
    hit: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class SlotLoad:
    """One ledger row. `queue_us`: booked prefill; `tokens` to prefill and `blocks` held by
    outstanding requests.
    """

    alive: bool
    epoch: int
    gen: float
    queue_us: float
    outstanding: int
    routes: int
    tokens: int
    blocks: int
    costs: LearnedCosts


@dataclass(frozen=True, slots=True)
class LedgerState:
    """All rows, the running mean of output lengths, and how many routers share the ledger."""

    slots: Mapping[int, SlotLoad] = field(default_factory=dict)
    mean_output: float = DEFAULT_OUTPUT
    routers: int = 1

    def kappa(self) -> float:
        """What a miss costs everybody else; grows with the least queue of the fleet."""
        least = min((slot.queue_us for slot in self.slots.values() if slot.alive), default=0.0)
        return min(KAPPA_MAX, KAPPA_BASE + KAPPA_PER_SECOND * least * 1e-6)


@dataclass(frozen=True, slots=True)
class Price:
    """Parts of one candidate's cost, ms."""

    candidate: Candidate
    queue_ms: float
    prefill_ms: float
    decode_ms: float
    cost_ms: float


def price(state: LedgerState, prompt_tokens: int, candidates: Sequence[Candidate]) -> list[Price]:
    """Costs of the candidates whose slot is alive, in their order."""
    kappa = state.kappa()
    priced = []
    for candidate in candidates:
        load = state.slots.get(candidate.slot)
        if load is None or not load.alive:
            continue
        prefill = load.costs.prefill_ms(prompt_tokens, candidate.hit)
        decode = load.costs.decode_ms(state.mean_output, load.outstanding)
        queue = load.queue_us * 1e-3
        cost = queue + (1 + kappa * candidate.weight) * prefill + decode
        priced.append(Price(candidate, queue, prefill, decode, cost))
    return priced


def cheapest(priced: Sequence[Price], tie: int) -> Price | None:
    """The least cost; `tie` (a random integer) picks among equals. None without candidates."""
    if not priced:
        return None
    least = min(entry.cost_ms for entry in priced)
    equal = [entry for entry in priced if entry.cost_ms <= least + TIE_MS]
    return equal[tie % len(equal)]
