"""`kvroute bench index`: lookups of 512-block prompts, event rate, memory and bootstrap of the
view.

Prompts share 128 blocks by eights and have 384 of their own; each is cached by 1 to 3 workers. Half
of the lookups hit in full, 40 % in part, 10 % not at all. Every row has a process of its own, so
that its memory is its own.
"""

from __future__ import annotations

import asyncio
import gc
import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cache_index.base import BlockKey, Epoch, IndexKey, WorkerId
from cache_index.bench.report import common, percentile
from cache_index.embedded import EmbeddedServer
from cache_index.fleet import WorkerDescription
from cache_index.follower import Follower
from cache_index.identity import ModelIdentity
from cache_index.keys import SCHEME
from cache_index.registration import Registration
from cache_index.view import IndexView

SHARED, OWN, GROUP = 128, 384, 8
LOOKUPS = 400
REPEATS = 3
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Workload:
    """`prompts[i]`: keys of one prompt; `homes[i]`: numbers of the workers that cache it."""

    prompts: Sequence[tuple[Sequence[IndexKey], Sequence[IndexKey]]]
    homes: Sequence[Sequence[int]]
    lookups: Sequence[Sequence[IndexKey]]

    @property
    def blocks(self) -> int:
        return len(self.prompts) // GROUP * SHARED + len(self.prompts) * OWN


def _keys(rng: random.Random, count: int) -> list[IndexKey]:
    return [IndexKey(rng.getrandbits(64)) for _ in range(count)]


def make_workload(workers: int, blocks: int, seed: int) -> Workload:
    rng = random.Random(seed)
    groups = max(1, blocks // (SHARED + GROUP * OWN))
    prompts = []
    for _ in range(groups):
        shared = _keys(rng, SHARED)
        prompts += [(shared, _keys(rng, OWN)) for _ in range(GROUP)]
    homes = [rng.sample(range(workers), min(workers, rng.choice((1, 1, 1, 2, 3)))) for _ in prompts]
    return Workload(prompts, homes, list(_lookups(rng, prompts)))


def _lookups(
    rng: random.Random, prompts: Sequence[tuple[Sequence[IndexKey], Sequence[IndexKey]]]
) -> Iterator[list[IndexKey]]:
    for _ in range(LOOKUPS):
        shared, own = rng.choice(prompts)
        whole, kind = [*shared, *own], rng.random()
        if kind < 0.5:
            yield whole
        elif kind < 0.9:
            known = rng.choice((128, 128, 200, 300, 400))
            yield whole[:known] + _keys(rng, len(whole) - known)
        else:
            yield _keys(rng, len(whole))


def fill(view: IndexView, workload: Workload, workers: int) -> int:
    """Applies every prompt's events; returns how many blocks they named."""
    names = [WorkerId(f"w{number}") for number in range(workers)]
    for number, name in enumerate(names):
        view.add_worker(name, Epoch(number + 1))
    events = 0
    for (shared, own), homes in zip(workload.prompts, workload.homes, strict=True):
        for home in homes:
            view.store(names[home], shared)
            view.store(names[home], own)
            events += len(shared) + len(own)
    return events


def walk(view: IndexView, prompt: Sequence[IndexKey]) -> dict[WorkerId, int]:
    """Block by block: what `match` is compared with."""
    shards, low = view._shards, len(view._shards) - 1
    hits: dict[WorkerId, int] = {}
    mask, depth = view._alive, 0
    for depth, key in enumerate(prompt):
        left = shards[key & low].get(key, 0) & mask
        for worker in view._owners(mask & ~left) if depth and left != mask else ():
            hits[worker] = depth
        mask = left
        if not mask:
            return hits
    for worker in view._owners(mask):
        hits[worker] = depth + 1
    return hits


def _timed(lookup: Callable[[Sequence[IndexKey]], object], workload: Workload) -> float:
    """Median, microseconds."""
    samples = []
    for _ in range(REPEATS):
        for prompt in workload.lookups:
            start = time.perf_counter()
            lookup(prompt)
            samples.append(time.perf_counter() - start)
    return percentile(samples, 0.5) * 1e6


def _resident() -> int:
    """Bytes of this process in memory (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def measure_row(workers: int, blocks: int, seed: int) -> dict[str, Any]:
    """One row, in this process."""
    workload = make_workload(workers, blocks, seed)
    gc.collect()
    gc.freeze()
    gc.disable()
    view = IndexView()
    before = _resident()
    start = time.perf_counter()
    # Keys that arrive by the stream are objects of their own: count them as the view's.
    copies = Workload(
        [(_copy(shared), _copy(own)) for shared, own in workload.prompts], workload.homes, ()
    )
    copied = time.perf_counter() - start
    start = time.perf_counter()
    events = fill(view, copies, workers)
    applied = time.perf_counter() - start
    del copies
    resident = _resident() - before
    gc.enable()
    for prompt in workload.lookups[:100]:
        assert view.match(prompt) == walk(view, prompt)
    return {
        "workers": workers,
        "blocks": len(view),
        "gallop_p50_us": round(_timed(view.match, workload), 1),
        "walk_p50_us": round(_timed(lambda prompt: walk(view, prompt), workload), 1),
        "apply_per_s": round(events / applied),
        "bytes_per_block": round(resident / len(view), 1),
        "unpack_s": round(copied, 3),
    }


def _copy(keys: Sequence[IndexKey]) -> tuple[IndexKey, ...]:
    return struct.unpack(f"<{len(keys)}Q", struct.pack(f"<{len(keys)}Q", *keys))


async def measure_bootstrap(redis_url: str, blocks: int = 100_000) -> float:
    """Seconds from the start of a router to a complete view of one worker with `blocks` blocks."""
    identity = ModelIdentity(served_name="bench-bootstrap", key_scheme=SCHEME)
    worker = WorkerDescription(WorkerId("w"), "nowhere:1", identity, blocks)
    registration = Registration(redis_url, worker=worker, lease_s=30.0)
    await registration.start()
    rng = random.Random(1)
    stored = tuple(BlockKey(rng.randbytes(16)) for _ in range(blocks))
    registration.note(_Stored(stored))
    while not registration.synced:  # noqa: ASYNC110 (no event for it)
        await asyncio.sleep(0.01)
    follower = Follower(redis_url, identity.served_name)
    start = time.perf_counter()
    await follower.start()
    await follower.ready.wait()
    elapsed = time.perf_counter() - start
    assert follower.view.count(worker.worker_id) == blocks
    await follower.stop()
    await registration.withdraw()
    await registration.stop()
    return elapsed


@dataclass(frozen=True, slots=True)
class _Stored:
    stored: tuple[BlockKey, ...]
    removed: tuple[BlockKey, ...] = ()
    flushed: bool = False


async def _bootstrap_embedded() -> float:
    async with EmbeddedServer() as server:
        return await measure_bootstrap(server.url)


def bench_index(
    workers: Sequence[int] = (4, 64, 256),
    blocks: Sequence[int] = (100_000, 1_000_000, 5_000_000),
    seed: int = 7,
    *,
    redis_url: str = "",
) -> dict[str, Any]:
    """All rows and the bootstrap (against `redis_url`, or a server of its own)."""
    rows = []
    for size in blocks:
        for count in workers:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                rows.append(pool.submit(measure_row, count, size, seed).result())
    bootstrap = asyncio.run(measure_bootstrap(redis_url) if redis_url else _bootstrap_embedded())
    config = {"workers": list(workers), "blocks": list(blocks), "prompt_blocks": SHARED + OWN}
    return common("index", config, seed) | {
        "rows": rows,
        "bootstrap_100k_s": round(bootstrap, 3),
    }
