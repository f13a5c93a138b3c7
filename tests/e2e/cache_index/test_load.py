"""Four routers and eight workers as processes: one ledger, no staleness, balance, and zero at the
end.

Worker numbers equal ledger slots here: workers register one after the other into an empty Redis.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cache_index.base import RouterId
from cache_index.costs import LedgerState
from cache_index.embedded import EmbeddedServer, leashed
from cache_index.ledger_client import LedgerClient
from kvroute.bench.common import percentile
from tests.fakes.control_fleet import ROOT
from tests.fakes.fleet import MODEL
from tests.fakes.topology import free_ports

ROUTERS, WORKERS = 4, 8
Process = asyncio.subprocess.Process


@dataclass(frozen=True, slots=True)
class Load:
    """What a run showed. `imbalance`: outstanding requests, max over mean, sampled over the run."""

    requests: int
    refused: int
    delays_ms: Sequence[float]
    imbalance: Sequence[float]


async def spawn(*arguments: object) -> Process:
    return await asyncio.create_subprocess_exec(
        *leashed(Path(sys.executable)),
        *("-m", "tests.fakes.load_child", *map(str, arguments)),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        limit=2**26,
    )


@asynccontextmanager
async def processes(spawned: Sequence[Process]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for process in spawned:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def fresh(ledger: LedgerClient) -> LedgerState:
    ledger._peeked_at = float("-inf")
    return await ledger.peek()


def is_busy(state: LedgerState) -> bool:
    return any(slot.outstanding for slot in state.slots.values())


def check(state: LedgerState) -> None:
    for load in state.slots.values():
        assert min(load.queue_us, load.outstanding, load.tokens, load.blocks) >= 0, load


async def run_load(policy: str, rate: float, seconds: float, *, kill: bool = False) -> Load:
    """`kill`: the last router is killed once all run; its session must run out."""
    async with EmbeddedServer() as server:
        ports = free_ports(WORKERS)
        workers: list[Process] = []
        watcher = LedgerClient(server.url, MODEL, RouterId("watcher"))
        await watcher.start()
        routers: list[Process] = []
        async with processes(workers):
            for some in (ports[: WORKERS // 2], ports[WORKERS // 2 :]):
                workers.append(await spawn("workers", server.url, *some))
                expected = len(workers) * len(some)
                while len((await fresh(watcher)).slots) < expected:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            async with processes(routers):
                for number in range(ROUTERS):
                    tail = (rate / ROUTERS, seconds, policy, *ports)
                    routers.append(await spawn("router", server.url, f"r{number}", number, *tail))
                result = await watch(watcher, routers, kill=kill)
            async with asyncio.timeout(10):
                while is_busy(await fresh(watcher)):  # noqa: ASYNC110 (Redis holds it)
                    await asyncio.sleep(0.02)
            state = await fresh(watcher)
            for slot in state.slots.values():
                assert (slot.queue_us, slot.outstanding, slot.tokens, slot.blocks) == (0, 0, 0, 0)
        await watcher.stop()
        return result


async def watch(watcher: LedgerClient, routers: list[Process], *, kill: bool) -> Load:
    reading = [asyncio.create_task(read(router)) for router in routers]
    imbalance: list[float] = []
    while not all(task.done() for task in reading):
        state = await fresh(watcher)
        check(state)
        counts = [slot.outstanding for slot in state.slots.values()]
        if sum(counts) >= WORKERS:
            imbalance.append(max(counts) * len(counts) / sum(counts))
        if kill and state.routers == ROUTERS + 1 and is_busy(state):  # And the watcher.
            kill = False
            routers[-1].kill()
            async with asyncio.timeout(10):
                while (await fresh(watcher)).routers > ROUTERS:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)
    assert not kill, "the routers never ran all at once"
    results = [json.loads(line) for task in reading if (line := task.result())]
    return Load(
        requests=sum(result["requests"] for result in results),
        refused=sum(result["refused"] for result in results),
        delays_ms=[delay for result in results for delay in result["delays_ms"]],
        imbalance=imbalance,
    )


async def read(router: Process) -> str:
    """The last line a router printed; empty if it was killed."""
    assert router.stdout is not None
    lines = (await router.stdout.read()).decode().splitlines()
    return lines[-1] if lines and lines[-1].startswith("{") else ""


async def test_small_load_leaves_every_sum_at_zero() -> None:
    load = await run_load("lbgr_plus", rate=40, seconds=2.0)
    assert load.requests > 20
    assert len(load.delays_ms) >= 0.9 * (load.requests - load.refused)


async def test_router_killed_under_load_loses_its_bookings() -> None:
    await run_load("lbgr_plus", rate=40, seconds=5.0, kill=True)


@pytest.mark.soak
async def test_ledger_is_fresh_and_balanced_at_500_requests_per_second() -> None:
    chance = await run_load("random", rate=520, seconds=20.0)
    load = await run_load("lbgr_plus", rate=520, seconds=20.0)
    late = percentile(load.delays_ms, 0.99)
    ours, theirs = percentile(load.imbalance, 0.5), percentile(chance.imbalance, 0.5)
    print(
        json.dumps(
            {
                "requests": load.requests,
                "refused": load.refused,
                "first_token_to_ledger_p99_ms": round(late, 2),
                "imbalance_p50": round(ours, 3),
                "imbalance_p50_random": round(theirs, 3),
            }
        )
    )
    assert load.requests > 0.95 * 520 * 20
    assert late < 20
    assert ours <= 1.35 < theirs
