"""The ledger's rows, and LBGR+'s choice among them by a router alone.

The same choice as `choose` in lua/ledger.lua; the formula is `router_svc/policy/cost.py`, which is
standard library only. In the ledger's terms: Q is booked prefill whose first token has not come, n
outstanding requests, O the mean output length, w the share of a miss that is not an investment in
later hits (1 without the hot-prefix discount).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from router_svc.policy import cost
from router_svc.policy.base import Costs

DEFAULT_OUTPUT = 32.0
TIE_MS = 1e-6


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
    costs: Costs


@dataclass(frozen=True, slots=True)
class LedgerState:
    """All rows, the running mean of output lengths, and how many routers share the ledger."""

    slots: Mapping[int, SlotLoad] = field(default_factory=dict)
    mean_output: float = DEFAULT_OUTPUT
    routers: int = 1

    def kappa(self) -> float:
        """What a miss costs everybody else; grows with the least queue of the fleet."""
        queues = [slot.queue_us * 1e-3 for slot in self.slots.values() if slot.alive]
        return cost.kappa(queues or (0.0,))


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
        prefill = cost.prefill_ms(load.costs, prompt_tokens, candidate.hit)
        decode = cost.decode_ms(load.costs, load.outstanding, state.mean_output)
        queue = load.queue_us * 1e-3
        total = cost.total_ms(queue, kappa, candidate.weight, prefill, decode)
        priced.append(Price(candidate, queue, prefill, decode, total))
    return priced


def cheapest(priced: Sequence[Price], tie: int) -> Price | None:
    """The least cost; `tie` (a random integer) picks among equals. None without candidates."""
    if not priced:
        return None
    least = min(entry.cost_ms for entry in priced)
    equal = [entry for entry in priced if entry.cost_ms <= least + TIE_MS]
    return equal[tie % len(equal)]
