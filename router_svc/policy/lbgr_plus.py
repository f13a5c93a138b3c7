"""LBGR+: the lowest predicted cost wins (`cost.py` has the formula; arXiv 2601.18999 section 4 the
idea).
"""

from __future__ import annotations

from random import Random

from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.cost import priced
from router_svc.policy.shortlist import shortlist

TIE_MS = 1e-6


class LbgrPlus(Policy):
    """Prices a shortlist and lets the ledger choose among it, so that routers never herd on an old
    queue.
    """

    name = "lbgr_plus"

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        kappa, prices = priced(request, fleet, shortlist(fleet.candidates, rng))
        lowest = min(price.cost for price in prices)
        ties = [price for price in prices if price.cost <= lowest + TIE_MS]
        chosen = ties[0] if len(ties) == 1 else rng.choice(ties)
        best = max(prices, key=lambda price: price.candidate.hit)
        if chosen.candidate.hit == best.candidate.hit:
            reason = (
                "longest prefix hit at the lowest cost"
                if best.candidate.hit
                else "no hit anywhere; least loaded"
            )
        else:
            reason = f"{best.candidate.worker_id} holds more of the prefix, but costs more"
        return Decision(chosen, prices, prices, reason, kappa)
