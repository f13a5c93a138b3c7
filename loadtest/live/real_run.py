"""A real fleet on this machine beside its simulation: does the simulator rank systems as they are?

Each system gets a fleet of its own (empty caches), the same requests at the same times, and a
simulation with the profile fitted to the first fleet. Workers that share cores slow each other
down; the simulation charges that as a slowness of workers / cores.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvroute.client import Client
from kvroute.local.cluster import LocalCluster, Plan
from loadtest.live.fit import fit_profile
from loadtest.live.probe import probe
from loadtest.live.sender import Sender, SendOptions
from loadtest.live.summary import Slo, summarize_run
from loadtest.live.target import GrpcTarget
from loadtest.sim.fleet import simulate
from loadtest.sim.options import FleetOptions
from loadtest.sim.profile import Profile
from loadtest.workloads.base import Workload
from loadtest.workloads.gsp import Gsp, gsp

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class System:
    """What is compared: a policy of the router and an evictor of the workers."""

    policy: str
    evictor: str

    @property
    def label(self) -> str:
        return f"{self.policy} + {self.evictor}"


SYSTEMS = (
    System("cache_aware", "lru"),
    System("cache_aware@0.3", "lru"),
    System("lbgr_plus", "arc_mix"),
)


@dataclass(frozen=True, slots=True)
class RealOptions:
    """GSP scaled down: `groups` x `prompts` prompts of `lengths` tokens, half of each shared, at
    `rate` per second; `blocks` of 16 tokens of cache per worker.
    """

    workers: int = 4
    groups: int = 16
    prompts: int = 24
    lengths: tuple[int, ...] = (128, 256, 512)
    rate: float = 3.0
    blocks: int = 200
    seed: int = 1
    max_batch_tokens: int = 512
    ready_timeout_s: float = 600.0

    def workload(self) -> Workload:
        shape = Gsp(groups=self.groups, prompts=self.prompts, lengths=self.lengths, rate=self.rate)
        return gsp(shape, self.seed, "gsp_small")


async def real_run(
    model: str, options: RealOptions, say: Say, systems: Sequence[System] = SYSTEMS
) -> list[dict[str, Any]]:
    """One row per system: what was measured, and what the simulator predicted.

    Raises:
        KvrouteError: a fleet does not come up, or does not answer.
    """
    profile = await _profile(model, options, systems[0], say)
    return [await _measure(model, options, system, profile, say) for system in systems]


async def _profile(model: str, options: RealOptions, system: System, say: Say) -> Profile:
    """Fitted to a fleet that is ended afterwards: the probes must not be in anybody's cache."""
    with tempfile.TemporaryDirectory(prefix="kvroute-real-") as folder:
        one = replace(options, workers=1)
        async with LocalCluster(_plan(model, one, system, Path(folder)), say) as cluster:
            async with GrpcTarget(cluster.address) as target:
                vocabulary = (await target.describe()).vocabulary
            profile = await _fit(cluster.address, vocabulary, options)
    say(f"fitted: {profile.prefill_ms:.3g} ms per prompt token, {profile.step_ms:.3g} ms per step")
    return profile


async def _measure(
    model: str, options: RealOptions, system: System, profile: Profile, say: Say
) -> dict[str, Any]:
    workload = options.workload()
    with tempfile.TemporaryDirectory(prefix="kvroute-real-") as folder:
        cluster = LocalCluster(_plan(model, options, system, Path(folder)), say)
        async with cluster, GrpcTarget(cluster.address, system.policy) as target:
            service = await target.describe()
            say(f"{system.label}: {options.groups * options.prompts} requests")
            sender = Sender(target, service, SendOptions(seed=options.seed))
            records = await sender.run(workload)
    real = summarize_run(records, Slo())
    predicted = simulate(workload, _fleet(options, system, profile))
    return {
        "system": system.label,
        "policy": system.policy,
        "evictor": system.evictor,
        "requests": real["requests"],
        "failed": real["failed"],
        "fell_behind": real["fell_behind"],
        "real_lat_p50_ms": real["lat_p50_ms"],
        "sim_lat_p50_ms": round(predicted.latency(0.5), 1),
        "real_ttft_p95_ms": real["ttft_p95_ms"],
        "sim_ttft_p95_ms": round(predicted.ttft(0.95), 1),
        "real_hit_rate": real["hit_rate"],
        "sim_hit_rate": round(predicted.hit_rate, 4),
    }


async def _fit(address: str, vocabulary: int, options: RealOptions) -> Profile:
    async with Client(address, timeout_s=600.0) as client:
        lengths = [length for length in (64, 128, 256, 512) if length <= max(options.lengths)]
        return fit_profile(await probe(client, vocabulary, lengths=lengths, batches=(1, 2, 4)))


def _fleet(options: RealOptions, system: System, profile: Profile) -> FleetOptions:
    cores = len(os.sched_getaffinity(0))
    return FleetOptions(
        workers=options.workers,
        blocks=options.blocks,
        policy=system.policy,
        evictor=system.evictor,
        profile=profile,
        slowness=(max(1.0, options.workers / cores),),
        seed=options.seed,
    )


def _plan(model: str, options: RealOptions, system: System, folder: Path) -> Plan:
    return Plan(
        model=model,
        served_name="real",
        workers=options.workers,
        listen="127.0.0.1:0",
        redis_url="",
        folder=folder,
        ready_timeout_s=options.ready_timeout_s,
        worker_args=(
            *("--evictor", system.evictor, "--blocks", str(options.blocks), "--threads", "1"),
            *("--max-batch-tokens", str(options.max_batch_tokens)),
        ),
    )


def same_order(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether measured and predicted median latencies rank the systems alike."""
    real = sorted(rows, key=lambda row: row["real_lat_p50_ms"])
    predicted = sorted(rows, key=lambda row: row["sim_lat_p50_ms"])
    return [row["system"] for row in real] == [row["system"] for row in predicted]
