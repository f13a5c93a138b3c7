"""Microseconds per evicted block, for every evictor, through the block pool as the engine uses it.

The tree has groups of 500 blocks: a stem of 100 and four branches of 100, as shared prompts with
different ends have. All is released, then half of it is evicted. For comparison, one walk over a
tree of the same shape that finds the evictable leaves, which is what an evictor without candidate
lists does per call.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from kvroute.bench.common import common
from worker_svc.kv.block_pool import BlockPool
from worker_svc.kv.evict.registry import EVICTORS, create

_STEM = _BRANCH = 100
_BRANCHES = 4
_GROUP = _STEM + _BRANCHES * _BRANCH


def bench_evict(
    sizes: tuple[int, ...] = (10_000, 100_000), *, seed: int = 0, rounds: int = 3
) -> dict[str, Any]:
    """Medians over `rounds` of processor time, which neighbours on the machine disturb little."""
    rows = []
    for blocks in sizes:
        walk_us = _median([_walk_us(blocks) for _ in range(rounds)])
        for evictor in EVICTORS:
            cost = _median([_evict_us(evictor, blocks, seed + i) for i in range(rounds)])
            rows.append(
                {
                    "evictor": evictor,
                    "blocks": blocks,
                    "us_per_block": round(cost, 3),
                    "walk_ratio": round(walk_us / cost, 1),
                }
            )
    config = {"sizes": list(sizes), "rounds": rounds, "group": _GROUP}
    return common("evict", config, seed) | {"rows": rows}


def filled_pool(evictor: str, blocks: int, seed: int) -> BlockPool:
    """A pool full of cached blocks that nobody uses."""
    pool = BlockPool(blocks, create(evictor, blocks, Random(seed)))
    for group in range(blocks // _GROUP):
        stem = _grow(pool, (group,), _STEM, None)
        for branch in range(_BRANCHES):
            pool.lock(stem, hit=branch > 0)
            pool.release(stem + _grow(pool, (group, branch), _BRANCH, stem[-1]))
        pool.release(stem)
    pool.take_delta()
    return pool


def _grow(pool: BlockPool, name: tuple[int, ...], count: int, parent: int | None) -> list[int]:
    blocks = pool.take(count)
    for at, block in enumerate(blocks):
        pool.commit(block, _key((*name, at)), parent)
        parent = block
    return blocks


def _key(name: tuple[int, ...]) -> bytes:
    """16 bytes, as block keys are."""
    return hashlib.blake2b(repr(name).encode(), digest_size=16).digest()


def _evict_us(evictor: str, blocks: int, seed: int) -> float:
    pool = filled_pool(evictor, blocks, seed)
    count = blocks // 2
    with _no_collections():
        began = time.thread_time()
        for _ in range(count):
            pool.evict()
        return (time.thread_time() - began) / count * 1e6


@contextmanager
def _no_collections() -> Iterator[None]:
    """The garbage collector's pauses belong to whatever else the process holds."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Node:
    __slots__ = ("children", "locked")

    def __init__(self) -> None:
        self.children: dict[int, _Node] = {}
        self.locked = False


def _walk_us(blocks: int) -> float:
    """One walk that lists all leaves."""
    root = _Node()
    for group in range(blocks // _GROUP):
        top = _line(root, group, _STEM)
        for branch in range(_BRANCHES):
            _line(top, branch, _BRANCH)
    with _no_collections():
        began = time.thread_time()
        stack, leaves = [root], []
        while stack:
            node = stack.pop()
            if node.children:
                stack.extend(node.children.values())
            elif not node.locked:
                leaves.append(node)
        return (time.thread_time() - began) * 1e6


def _line(node: _Node, first: int, count: int) -> _Node:
    for at in range(count):
        child = _Node()
        node.children[first if at == 0 else 0] = child
        node = child
    return node


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
