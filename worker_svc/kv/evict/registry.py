"""Evictors by name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from worker_svc.kv.base import Evictor
from worker_svc.kv.evict.lru import Lru
from worker_svc.kv.evict.rlt import Rlt

EVICTORS: dict[str, Callable[[int, Random], Evictor]] = {
    "rlt": Rlt,
    "lru": Lru,
}


def create(name: str, capacity: int, rng: Random) -> Evictor:
    """An evictor for `capacity` blocks. Raises `ValueError` naming the known ones."""
    kind = EVICTORS.get(name)
    if kind is None:
        raise ValueError(f"unknown evictor {name!r}; known are {', '.join(sorted(EVICTORS))}")
    return kind(capacity, rng)
