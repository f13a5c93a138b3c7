"""`kvroute bench route`: choose-and-book calls through the real client, closed loop on one event
loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any

from cache_index import functions
from cache_index.base import Epoch, RouterId
from cache_index.commands import RedisClient, close, execute
from cache_index.costs import Candidate
from cache_index.index_calls import IndexCalls
from cache_index.ledger_client import LedgerClient
from cache_index.names import Names
from cache_index.redis_url import client_from_url
from kvroute.bench.common import common, percentile
from kvroute.errors import Unavailable

MODEL = "bench-route"


async def bench_route(
    redis_url: str,
    *,
    concurrency: Sequence[int] = (1, 32, 128),
    workers: int = 64,
    candidates: int = 8,
    seconds: float = 2.0,
    seed: int = 7,
) -> dict[str, Any]:
    """`route` calls per second and their round trips; bookings end behind the clock's back.
    `redis_us_per_call` is the server's own measure of one `route` call, at the lowest concurrency.
    """
    client = client_from_url(redis_url)
    names = Names.of(MODEL)
    calls = IndexCalls(names)
    for slot in range(workers):
        await functions.call(client, calls.join(slot, Epoch(slot + 1), keep_weights=False))
    ledger = LedgerClient(redis_url, MODEL, RouterId("bench"), seed=seed)
    await ledger.start()
    rng = random.Random(seed)
    shortlists = [
        [Candidate(slot, rng.randrange(8192)) for slot in rng.sample(range(workers), candidates)]
        for _ in range(64)
    ]
    try:
        per_call = await _server_cost(client, ledger, shortlists)
        rows = [await _drive(ledger, shortlists, many, seconds) for many in concurrency]
    finally:
        await ledger.stop()
        for slot in range(workers):
            await functions.call(client, calls.leave(slot, Epoch(slot + 1)))
        await close(client)
    config = {"workers": workers, "candidates": candidates, "seconds": seconds}
    return common("route", config, seed) | {"rows": rows, "redis_us_per_call": per_call}


async def _server_cost(
    client: RedisClient, ledger: LedgerClient, shortlists: Sequence[Sequence[Candidate]]
) -> float:
    """Microseconds of Redis per `route`, by its own statistics."""
    await execute(client, "CONFIG", "RESETSTAT")
    bookings = [await ledger.book(8192, shortlists[n % len(shortlists)]) for n in range(1000)]
    stats = await client.info("commandstats")
    for booking in bookings:
        ledger.finish(booking)
    return float(stats["cmdstat_fcall"]["usec_per_call"])


async def _drive(
    ledger: LedgerClient,
    shortlists: Sequence[Sequence[Candidate]],
    concurrency: int,
    seconds: float,
) -> dict[str, Any]:
    samples: list[float] = []
    refused = 0
    end = time.perf_counter() + seconds

    async def caller(number: int) -> None:
        nonlocal refused
        while (start := time.perf_counter()) < end:
            number += concurrency
            try:
                booking = await ledger.book(8192, shortlists[number % len(shortlists)])
            except Unavailable:
                refused += 1
                await asyncio.sleep(0.1)
                continue
            samples.append(time.perf_counter() - start)
            ledger.finish(booking)

    start = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(concurrency)))
    elapsed = time.perf_counter() - start
    return {
        "concurrency": concurrency,
        "refused": refused,
        "calls_per_s": round(len(samples) / elapsed),
        "p50_us": round(percentile(samples, 0.5) * 1e6),
        "p99_us": round(percentile(samples, 0.99) * 1e6),
    }
