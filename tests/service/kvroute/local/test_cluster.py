"""A whole local fleet with a fake model: start, the demo's loop on it, loss of a part, end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kvroute.client import Client
from kvroute.demo.checks import check_all
from kvroute.demo.measure import empty_caches, run_policy
from kvroute.demo.summary import summarize
from kvroute.demo.workload import PLAIN, build
from kvroute.errors import StartError
from kvroute.local.cluster import LocalCluster, Plan
from tests.fakes.worker_command import PROGRAM

LIVENESS_S = 60.0
BLOCK = 16


def plan(folder: Path) -> Plan:
    return Plan(
        model="fake",
        served_name="demo",
        workers=2,
        listen="127.0.0.1:0",
        redis_url="",
        folder=folder,
        ready_timeout_s=LIVENESS_S,
        worker_program=PROGRAM,
    )


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[LocalCluster]:
    async with asyncio.timeout(2 * LIVENESS_S), LocalCluster(plan(folder), print) as cluster:
        yield cluster


async def test_demo_holds_on_a_fleet_with_a_fake_model(tmp_path: Path) -> None:
    texts = [(name, f"{name} says " * 100) for name in ("a", "b", "c", "d", "e", "f")]
    questions = ("Who?", "What?", "When?", "Why?")
    requests = build(lambda text: [ord(one) for one in text], PLAIN, texts, questions, 512, 1)
    runs = {}
    async with running(tmp_path) as cluster, Client(cluster.address) as client:
        for policy in ("round_robin", "lbgr_plus"):
            await empty_caches(client)
            runs[policy] = await run_policy(client, policy, requests, 32, lambda outcome: None)
    summary = summarize(runs, BLOCK)
    assert summary.failed == 0
    # Nothing is evicted, so the router may know a block late, but never one that is not there.
    for outcome in (*runs["round_robin"], *runs["lbgr_plus"]):
        assert outcome.predicted_hit <= outcome.delivered_hit
        assert outcome.delivered_hit == outcome.cached_tokens
    _, _, _, hit_rate = check_all(summary, "round_robin", "lbgr_plus", BLOCK)
    assert hit_rate.ok, hit_rate.text


async def test_fleet_fails_when_its_router_is_gone_and_leaves_nobody_behind(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as cluster:
        assert cluster.router is not None
        assert cluster.router.pid is not None
        os.kill(cluster.router.pid, signal.SIGKILL)
        assert "the router ended" in await cluster.failed()
    assert not any(worker.running for worker in cluster.workers)


async def test_fleet_that_cannot_start_ends_what_it_started(tmp_path: Path) -> None:
    broken = replace(plan(tmp_path), worker_args=("--blocks", "x"))
    cluster = LocalCluster(broken, print)
    with pytest.raises(StartError, match="worker-. did not start: --blocks is 'x'"):
        await cluster.__aenter__()
    assert cluster.router is not None
    assert not cluster.router.running
