"""What a router knows of the ledger by itself, while Redis does not answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from cache_index.costs import Candidate, LedgerState, SlotLoad
from cache_index.ledger_codec import Entry
from router_svc.policy.base import Costs

NOTHING = SlotLoad(
    alive=True,
    epoch=0,
    gen=0.0,
    queue_us=0.0,
    outstanding=0,
    routes=0,
    tokens=0,
    blocks=0,
    costs=Costs(),
)
"""A slot never seen in Redis. Epoch and generation 0 never stand there: its load stays local."""


def local_state(peeked: LedgerState, own: Iterable[Entry]) -> LedgerState:
    """Rows and weights as last `peeked`, with the load of this router's `own` bookings only."""
    mine = {(entry.slot, entry.gen): entry for entry in own}
    slots = {slot: _loaded(seen, mine.get((slot, seen.gen))) for slot, seen in peeked.slots.items()}
    return replace(peeked, slots=slots, routers=1)


def all_alive(
    state: LedgerState, own: Iterable[Entry], candidates: Sequence[Candidate]
) -> LedgerState:
    """A local state in which every candidate lives: the router sees the workers itself.

    A slot that was never peeked has the mean costs of those that were.
    """
    slots = dict(state.slots)
    unseen = {entry.slot: entry for entry in own if entry.gen == NOTHING.gen}
    costs = mean_costs([load.costs for load in slots.values() if load.alive])
    for slot in (candidate.slot for candidate in candidates):
        if slot in slots:
            slots[slot] = replace(slots[slot], alive=True)
        else:
            slots[slot] = _loaded(replace(NOTHING, costs=costs), unseen.get(slot))
    return replace(state, slots=slots)


def mean_costs(known: Sequence[Costs]) -> Costs:
    """Field by field; the prior if nothing is known."""
    if not known:
        return Costs()
    names = [field.name for field in fields(Costs)]
    return Costs(
        **{name: sum(getattr(costs, name) for costs in known) / len(known) for name in names}
    )


def _loaded(row: SlotLoad, own: Entry | None) -> SlotLoad:
    return replace(
        row,
        queue_us=float(own.us) if own else 0.0,
        outstanding=own.outstanding if own else 0,
        tokens=own.tokens if own else 0,
        blocks=own.blocks if own else 0,
    )
