"""stub"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cache_index.base import BlockKey, Epoch
from cache_index.fleet import WorkerDescription


class CacheDelta(Protocol):
    """What one step did to a cache: `stored` parents first, `removed` children first."""

    @property
    def stored(self) -> Sequence[BlockKey]: ...
    @property
    def removed(self) -> Sequence[BlockKey]: ...
    @property
    def flushed(self) -> bool: ...


class Registration:
    def __init__(
        self,
        redis_url: str,
        *,
        worker: WorkerDescription,
        lease_s: float = 3.0,
        flush_s: float = 0.015,
    ) -> None:
        raise NotImplementedError

    epoch: Epoch
    slot: int
    connected: bool

    async def start(self) -> None:
        """Raises Mismatch."""

    def note(self, delta: CacheDelta) -> None: ...
    def report_load(self, queued_us: int, running: int) -> None: ...
    def set_draining(self, draining: bool) -> None: ...
    async def withdraw(self) -> None: ...
    async def stop(self) -> None: ...
