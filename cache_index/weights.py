"""What all routers have learned of a model's workers: read, or forgotten."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cache_index import functions
from cache_index.base import WorkerId
from cache_index.commands import RedisClient, get
from cache_index.functions import Call
from cache_index.ledger_codec import unpack_state
from cache_index.names import Names
from cache_index.snapshots import Snapshots
from router_svc.policy.base import Costs

ROW_BYTES = 120
"""A row of P (lua/ledger_rows.lua); its last two doubles count observations."""
_COUNTS = struct.Struct("<dd")


@dataclass(frozen=True, slots=True)
class WorkerWeights:
    """One worker's costs, and from how many requests they were learned since it (re)started."""

    worker_id: WorkerId
    slot: int
    costs: Costs
    prefills: int
    decodes: int


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """`mean_output`: tokens per answer, a running mean over all workers."""

    served_name: str
    mean_output: float
    workers: tuple[WorkerWeights, ...]


async def read_weights(client: RedisClient, served_name: str) -> ModelWeights:
    """Of all registered workers. Raises what redis-py raises."""
    names = Names.of(served_name)
    registered = await Snapshots(client, names).registry()
    keys = (names.queues, names.rows, names.weights, names.sessions)
    state = unpack_state(await functions.call(client, Call("peek", keys)))
    covariances = await get(client, names.covariances) or b""
    found = [
        WorkerWeights(worker, record.slot, state.slots[record.slot].costs, *counts)
        for worker, record in sorted(registered.items())
        if record.slot in state.slots
        for counts in (_observations(covariances, record.slot),)
    ]
    return ModelWeights(served_name, state.mean_output, tuple(found))


async def reset_weights(client: RedisClient, served_name: str) -> int:
    """Forgets what was learned of this model's workers, for all routers at once; how many rows
    that were. Raises what redis-py raises.
    """
    names = Names.of(served_name)
    keys = (names.rows, names.weights, names.covariances)
    return int(await functions.call(client, Call("reset", keys)))


def _observations(covariances: bytes, slot: int) -> tuple[int, int]:
    at = (slot + 1) * ROW_BYTES - _COUNTS.size
    if at + _COUNTS.size > len(covariances):
        return 0, 0
    prefills, decodes = _COUNTS.unpack_from(covariances, at)
    return int(prefills), int(decodes)
