"""`--preset single-worker`: hit rates of every evictor on one cache, untimed, against Belady.

The cache holds a share of the *re-used* blocks: one-shot suffixes are no working set.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtest.sim.future import Future, with_oracle_hints
from loadtest.sim.grid import Done
from loadtest.sim.replay import BELADY, Replay
from loadtest.workloads.base import Call, Workload, summarize
from loadtest.workloads.chat import Chat, chat
from loadtest.workloads.documents import Documents, documents
from loadtest.workloads.gsp import Gsp, gsp
from loadtest.workloads.mooncake import mooncake
from loadtest.workloads.scans import Cyclic, Drift, cyclic, drift
from loadtest.workloads.traces import find

FRACTIONS = (0.25, 0.5, 0.75, 0.9)
GENERATED = ("gsp_random", "gsp_rr", "gsp_zipf", "chat", "loogle", "cyclic", "drift")
TRACED = {"moon_conv": "mooncake_conversation", "moon_synth": "mooncake_synthetic"}
HELD_OUT = ("gsp_held", "zipf_held", "chat_held", "loogle_held", "cyclic_held", "drift_held")


@dataclass(frozen=True, slots=True)
class SingleTask:
    """`hints`: "" none, "declared" what clients know, "oracle" the future."""

    workload: str
    evictors: tuple[str, ...]
    seed: int = 1
    fractions: tuple[float, ...] = FRACTIONS
    look_ahead: int = 0
    hints: str = ""
    concurrent: int = 1


def workload(name: str, seed: int, traces: Path | None) -> Workload | None:
    """None: a trace that is not at hand."""
    if name in TRACED:
        path = find(TRACED[name], traces)
        return mooncake(path, name=name) if path is not None else None
    made = {
        "gsp_random": lambda: gsp(Gsp(), seed),
        "gsp_rr": lambda: gsp(Gsp(order="round_robin"), seed),
        "gsp_zipf": lambda: gsp(Gsp(zipf=1.0), seed),
        "chat": lambda: chat(Chat(), seed),
        "loogle": lambda: documents(Documents(), seed),
        "cyclic": lambda: cyclic(Cyclic()),
        "drift": lambda: drift(Drift(), seed),
        "gsp_held": lambda: gsp(Gsp(groups=96, prompts=40, ratio=0.6), seed + 100),
        "zipf_held": lambda: gsp(Gsp(zipf=1.3), seed + 100),
        "chat_held": lambda: chat(Chat(turns=(3, 5, 9), system_prompts=1), seed + 100),
        "loogle_held": lambda: documents(Documents(documents=60), seed + 100),
        "cyclic_held": lambda: cyclic(Cyclic(documents=48, length=3072)),
        "drift_held": lambda: drift(Drift(hot=10, period=300), seed + 100),
    }
    return made[name]()


def run_single(task: SingleTask, traces: Path | None) -> list[dict[str, Any]]:
    """Rows of one workload: one per evictor and cache size. Empty if its trace is missing."""
    made = workload(task.workload, task.seed, traces)
    if made is None:
        return []
    calls: Sequence[Call] = list(made.flat())
    summary = summarize(calls, made.block_size)
    future = None
    if task.hints == "oracle":
        calls = list(with_oracle_hints(calls, Future(calls)))
    rows = []
    for fraction in task.fractions:
        blocks = max(1, int(summary.reused_blocks * fraction))
        for evictor in task.evictors:
            future = Future(calls) if evictor == BELADY else None
            result = Replay(
                calls,
                made.block_size,
                evictor,
                blocks,
                concurrent=task.concurrent,
                look_ahead=task.look_ahead,
                hints=bool(task.hints),
                future=future,
            ).run()
            rows.append(
                {
                    "workload": task.workload,
                    "evictor": evictor,
                    "look_ahead": task.look_ahead,
                    "hints": task.hints,
                    "held_out": task.workload in HELD_OUT,
                    "cache_fraction": fraction,
                    "blocks": blocks,
                    "hit_rate": round(result.hit_rate, 5),
                    "endless_hit_rate": round(summary.endless_hit_rate, 5),
                    "seed": task.seed,
                }
            )
    return rows


def run_singles(
    tasks: Sequence[SingleTask], traces: Path | None, jobs: int, done: Done | None = None
) -> list[dict[str, Any]]:
    """All rows, in the order of `tasks`."""
    rows: list[dict[str, Any]] = []
    if jobs <= 1:
        for number, task in enumerate(tasks):
            rows += run_single(task, traces)
            if done is not None:
                done(number + 1, len(tasks))
        return rows
    with ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_single, task, traces) for task in tasks]
        for number, one in enumerate(futures):
            rows += one.result()
            if done is not None:
                done(number + 1, len(tasks))
    return rows
