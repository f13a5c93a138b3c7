"""What a router knows of a model, as `ClusterState` tells it."""

from __future__ import annotations

from cache_index.costs import LedgerState
from kvroute.errors import Unavailable
from kvroute.v1 import router_pb2
from router_svc.fleet import ModelFleet
from router_svc.policy.base import Costs
from router_svc.policy.registry import POLICIES


async def model_state(fleet: ModelFleet, default_policy: str) -> router_pb2.ModelState:
    """Registry, view and ledger of one model at this moment."""
    follower = fleet.follower
    degraded = follower.stale
    try:
        load = await fleet.ledger.peek()
    except Unavailable:
        load, degraded = fleet.ledger.local_state(), True
    state = router_pb2.ModelState(
        workers=_workers(fleet, load),
        view_complete=follower.ready.is_set(),
        degraded=degraded,
        resyncs=follower.resyncs,
        gaps=follower.gaps,
        policies=sorted(POLICIES),
        default_policy=default_policy,
        routers=load.routers,
    )
    records = list(follower.workers.values())
    if records:
        state.identity.CopyFrom(records[0].identity.to_proto())
    else:
        state.identity.served_name = fleet.served_name
    return state


def _workers(fleet: ModelFleet, load: LedgerState) -> list[router_pb2.WorkerState]:
    found = []
    for worker_id, record in sorted(fleet.follower.workers.items()):
        link = fleet.links.get(worker_id)
        row = load.slots.get(record.slot)
        costs = row.costs if row else Costs()
        found.append(
            router_pb2.WorkerState(
                worker_id=worker_id,
                address=record.address,
                epoch=record.epoch,
                sequence=record.seq,
                slot=record.slot,
                cached_blocks=fleet.follower.view.count(worker_id),
                total_blocks=record.total_blocks,
                connected=link is not None and link.connected,
                draining=record.draining or (link is not None and link.draining),
                queue_ms=row.queue_us / 1000.0 if row else 0.0,
                outstanding=row.outstanding if row else 0,
                costs=router_pb2.LearnedCosts(
                    base_ms=costs.base_ms,
                    hit_ms_per_1k=costs.hit_ms,
                    miss_ms_per_1k=costs.miss_ms,
                    attention_ratio=costs.attention,
                    step_base_ms=costs.step_base_ms,
                    step_ms_per_request=costs.step_ms,
                ),
                adapters=record.adapters,
            )
        )
    return found
