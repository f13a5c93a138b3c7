"""Workers and a router of the index protocol in one event loop, and when they agree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cache_index.base import WorkerId
from cache_index.follower import Follower
from cache_index.names import Names
from cache_index.registration import Registration
from tests.fakes.fleet import MODEL

LEASE_S = 0.5
AUDIT_S = 0.1
A, B = WorkerId("a"), WorkerId("b")
NAMES = Names.of(MODEL)
FollowerFactory = Callable[[], Awaitable[Follower]]
WorkerFactory = Callable[..., Awaitable[Registration]]


def agrees(follower: Follower, *registrations: Registration) -> bool:
    """Whether the view equals the truth of exactly these workers."""
    if len(follower.workers) != len(registrations):
        return False
    follower.check()
    return all(
        (record := follower.workers.get(r._worker.worker_id)) is not None
        and record.epoch == r.epoch
        and follower.view.blocks_of(record.worker_id) == set(r._publisher.truth)
        for r in registrations
    )
