"""One audit of a whole model, as a router that has just started would see it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cache_index.audit import WorkerComparison
from cache_index.base import WorkerId
from cache_index.follower import Follower
from kvroute.errors import Unavailable

PAUSE_S = 0.05
LEASE_S = 3.0
STALL_S = 5.0
"""So long may reading the view bring nothing new."""


@dataclass(frozen=True, slots=True)
class ModelAudit:
    """`workers`: the last comparison of each worker, or the one in which all its sides agreed."""

    served_name: str
    workers: tuple[WorkerComparison, ...]

    @property
    def equal(self) -> bool:
        return all(worker.equal for worker in self.workers)


async def audit_model(redis_url: str, served_name: str, *, patience_s: float = 5.0) -> ModelAudit:
    """Reads a fresh view; compares it with what every worker published and what it says it holds.

    A worker in motion differs by the events under way, so that each is compared until it agreed
    once, or `patience_s` is over. Raises Unavailable if Redis stops giving the view.
    """
    follower = Follower(redis_url, served_name, lease_s=LEASE_S)
    await follower.start()
    try:
        await _complete(follower)
        return ModelAudit(served_name, await _compare(follower, patience_s))
    finally:
        await follower.stop()


async def _complete(follower: Follower) -> None:
    """Waits for the view as long as it grows."""
    loop = asyncio.get_running_loop()
    known, end = -1, loop.time() + STALL_S
    while not follower.ready.is_set():
        if len(follower.view) != known:
            known, end = len(follower.view), loop.time() + STALL_S
        if loop.time() > end:
            raise Unavailable("Redis does not answer: there is no view to audit")
        await asyncio.sleep(PAUSE_S)


async def _compare(follower: Follower, patience_s: float) -> tuple[WorkerComparison, ...]:
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    agreed: dict[WorkerId, WorkerComparison] = {}
    while True:
        found = {one.worker: one for one in await follower.compare()}
        agreed |= {worker: one for worker, one in found.items() if one.equal}
        merged = {worker: agreed.get(worker, one) for worker, one in found.items()}
        if all(one.equal for one in merged.values()) or loop.time() > end:
            return tuple(merged[worker] for worker in sorted(merged))
        await asyncio.sleep(PAUSE_S)
