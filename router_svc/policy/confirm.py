"""From one number per candidate to a decision of a policy that wants its choice confirmed."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from router_svc.policy.base import Candidate, Decision, Fleet, Request
from router_svc.policy.cost import priced
from router_svc.policy.shortlist import SIZE

TIE = 1e-9


def least(costs: Sequence[float], rng: Random) -> int:
    """Index of the least cost; equal ones are drawn with `rng`, or ties would herd on the first."""
    lowest = min(costs) + TIE
    ties = [index for index, cost in enumerate(costs) if cost <= lowest]
    return ties[0] if len(ties) == 1 else rng.choice(ties)


def confirm(
    request: Request,
    fleet: Fleet,
    chosen: int,
    reason: str,
    costs: Sequence[float] | None = None,
) -> Decision:
    """A decision for candidate `chosen` alone.

    The least costly others are priced beside it, so that explain records can compare. `costs` (one
    per candidate, in the policy's own unit) become the prices' costs; without them LBGR+'s stay.
    """
    size = len(fleet.candidates)
    others = [index for index in range(size) if index != chosen]
    if len(others) >= SIZE:
        others = (
            others[: SIZE - 1]
            if costs is None
            else heapq.nsmallest(SIZE - 1, others, key=costs.__getitem__)
        )
    indexes = (chosen, *others)
    kappa, prices = priced(request, fleet, [fleet.candidates[index] for index in indexes])
    if costs is not None:
        prices = tuple(
            replace(price, cost=costs[index]) for price, index in zip(prices, indexes, strict=True)
        )
    return Decision(prices[0], prices, prices[:1], reason, kappa)


def cheapest(
    request: Request, fleet: Fleet, costs: Sequence[float], rng: Random, reason: str
) -> Decision:
    """The candidate of the least cost, confirmed."""
    return confirm(request, fleet, least(costs, rng), reason, costs)


def by_outstanding(candidates: Sequence[Candidate]) -> list[float]:
    """Outstanding requests per candidate, as costs."""
    return [float(candidate.outstanding) for candidate in candidates]
