"""`kvroute bench index`: lookups of 512-block prompts, event rate, memory and bootstrap of the
view.

Every row has a process of its own, so that its memory is its own; a rival's row runs right behind.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cache_index.base import BlockKey, Epoch, IndexKey, WorkerId
from cache_index.bench.workload import OWN, SHARED, Workload, make_workload
from cache_index.embedded import EmbeddedServer
from cache_index.fleet import WorkerDescription
from cache_index.follower import Follower
from cache_index.identity import ModelIdentity
from cache_index.keys import SCHEME
from cache_index.registration import Registration
from cache_index.view import Hits, IndexView
from kvroute.bench.common import common, percentile
from kvroute.bench.rivals import Missing, find_python, reason

REPEATS = 3
RIVAL = "dynamo"
_PAGE = 4096


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


def walk(view: IndexView, prompt: Sequence[IndexKey]) -> Hits:
    """Block by block: what `match` is compared with."""
    shards, low = view._shards, len(view._shards) - 1
    hits, mask = Hits(), view._alive
    for depth, key in enumerate(prompt):
        left = shards[key & low].get(key, 0) & mask
        if left != mask:
            if depth:
                view._record(hits, mask ^ left, depth)
            mask = left
            if not mask:
                return hits
    view._record(hits, mask, len(prompt))
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
    gc.unfreeze()
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


def measure_dynamo(python: Path, workers: int, blocks: int, seed: int) -> dict[str, Any]:
    """The same lookups by Dynamo's RadixTree. Raises OSError or CalledProcessError."""
    script = Path(__file__).with_name("dynamo_rival.py")
    done = subprocess.run(
        [python, script, str(workers), str(blocks), str(seed)],
        env=os.environ | {"PYTHONPATH": str(script.parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


async def measure_bootstrap(redis_url: str, blocks: int) -> float:
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


async def _bootstrap_embedded(blocks: int) -> float:
    async with EmbeddedServer() as server:
        return await measure_bootstrap(server.url, blocks)


def bench_index(
    workers: Sequence[int] = (4, 64, 256),
    blocks: Sequence[int] = (100_000, 1_000_000, 5_000_000),
    seed: int = 7,
    *,
    redis_url: str = "",
    bootstrap_blocks: int = 100_000,
    vs: Sequence[str] = (),
) -> dict[str, Any]:
    """All rows and the bootstrap (against `redis_url`, or a server of its own).

    `vs`: of "dynamo", whose RadixTree binding answers the same lookups (`make compare-dynamo`); if
    it cannot, `missing` says why.
    """
    rows: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    missing = [Missing(name, f"unknown; known: {RIVAL}") for name in vs if name != RIVAL]
    dynamo = find_python(RIVAL) if RIVAL in vs else None
    if isinstance(dynamo, Missing):
        missing.append(dynamo)
    for size in blocks:
        for count in workers:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                rows.append(pool.submit(measure_row, count, size, seed).result())
            if isinstance(dynamo, Path):
                try:
                    theirs.append(measure_dynamo(dynamo, count, size, seed))
                except (OSError, subprocess.CalledProcessError) as error:
                    dynamo = Missing(RIVAL, reason(error))
                    missing.append(dynamo)
    bootstrap = asyncio.run(
        measure_bootstrap(redis_url, bootstrap_blocks)
        if redis_url
        else _bootstrap_embedded(bootstrap_blocks)
    )
    config = {"workers": list(workers), "blocks": list(blocks), "prompt_blocks": SHARED + OWN}
    result = common("index", config, seed) | {
        "rows": rows,
        "bootstrap_100k_s": round(bootstrap, 3),
    }
    if not vs:
        return result
    result["missing"] = [one.to_json() for one in missing]
    if not theirs:
        return result
    ratios = [
        round(their["find_p50_us"] / our["gallop_p50_us"], 2)
        for our, their in zip(rows, theirs, strict=False)
    ]
    return result | {"vs": {RIVAL: theirs}, "ratio": {RIVAL: ratios}}
