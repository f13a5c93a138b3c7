"""stub"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redis.asyncio import Redis

from cache_index.base import WorkerId
from cache_index.fleet import WorkerRecord
from cache_index.view import IndexView


class Follower:
    def __init__(
        self,
        redis_url: str,
        served_name: str,
        *,
        lease_s: float = 3.0,
        audit_s: float = 1.0,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        raise NotImplementedError

    ready: asyncio.Event
    stale: bool
    view: IndexView
    workers: dict[WorkerId, WorkerRecord]
    resyncs: int
    gaps: int
    dups: int

    async def start(self) -> None: ...
    def drop(self, worker: WorkerId) -> None: ...
    async def stop(self) -> None: ...


async def discover_models(client: Redis) -> dict[str, str]:
    """Served name -> M."""
    raise NotImplementedError
