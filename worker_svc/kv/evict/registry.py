"""Evictors by name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from worker_svc.kv.base import Evictor
from worker_svc.kv.evict.arc import Arc, arc_mix
from worker_svc.kv.evict.fifo import Fifo
from worker_svc.kv.evict.lfu import Lfu
from worker_svc.kv.evict.lru import Lru
from worker_svc.kv.evict.rlt import Rlt
from worker_svc.kv.evict.s3fifo import S3Fifo
from worker_svc.kv.evict.shadow import Shadow
from worker_svc.kv.evict.uniform import Uniform

EVICTORS: dict[str, Callable[[int, Random], Evictor]] = {
    "arc_mix": arc_mix,
    "rlt": Rlt,
    "shadow": Shadow,
    "arc": Arc,
    "lru": Lru,
    "random": Uniform,
    "fifo": Fifo,
    "lfu": Lfu,
    "s3fifo": S3Fifo,
}


def create(name: str, capacity: int, rng: Random) -> Evictor:
    """An evictor for `capacity` blocks. Raises `ValueError` naming the known ones."""
    kind = EVICTORS.get(name)
    if kind is None:
        raise ValueError(f"unknown evictor {name!r}; known are {', '.join(sorted(EVICTORS))}")
    return kind(capacity, rng)
