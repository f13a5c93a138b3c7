"""The fixed studies of `kvroute sim --preset NAME`: which runs, and the rows they print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

from loadtest.sim.cells import CELLS, HELD_OUT
from loadtest.sim.grid import Row, Task, find_cell
from worker_svc.kv.evict.registry import EVICTORS

DEFAULT_EVICTOR = "arc_mix" if "arc_mix" in EVICTORS else "rlt"
QUICK_RIVALS = (
    "cache_aware@0.3",
    "llmd",
    "lmetric",
    "dualmap",
    "preble",
    "dynamo",
)
ALL_RIVALS = (
    *QUICK_RIVALS,
    "cache_aware",
    "lbgr",
    "least_load",
    "power_of_two",
    "bounded_hash",
    "round_robin",
    "random",
)
PAPER_SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class AblationLine:
    """One line of the paper's ablation: label, policy, evictor, and the index its code has."""

    label: str
    policy: str
    evictor: str
    index: str


def ablation_lines(default_evictor: str) -> tuple[AblationLine, ...]:
    """The paper's four cells as released (routers guess caches from their own past), cache_aware at
    the threshold that sees GSP's shared half, and ours.
    """
    paper = tuple(
        AblationLine(label, policy, evictor, "history")
        for label, policy in (
            ("cache_aware@0.5", "cache_aware"),
            ("cache_aware@0.3", "cache_aware@0.3"),
            ("lbgr", "lbgr"),
        )
        for evictor in ("lru", "rlt")
    )
    evictors = dict.fromkeys(("lru", "rlt", default_evictor))
    ours = tuple(AblationLine("lbgr_plus", "lbgr_plus", one, "events") for one in evictors)
    return paper + ours


def ablation_tasks(seeds: Sequence[int], default_evictor: str) -> list[Task]:
    return [
        Task("paper", line.policy, line.evictor, seed, line.index)
        for line in ablation_lines(default_evictor)
        for seed in seeds
    ]


def label(row: Row) -> str:
    """The policy as tables call it: `cache_aware@0.5` for the default threshold."""
    policy = row.task.policy.replace("cache_aware:threshold=", "cache_aware@")
    return "cache_aware@0.5" if policy == "cache_aware" else policy


def ablation_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "policy": label(row),
            "evictor": row.task.evictor,
            "index": row.task.index,
            "lat_p50_ms": round(row.lat_p50_ms, 1),
            "lat_p50_range_ms": [round(value, 1) for value in row.lat_p50_range],
            "ttft_p50_ms": round(row.ttft_p50_ms, 1),
            "ttft_p95_ms": round(row.ttft_p95_ms, 1),
            "hit_rate": round(row.hit_rate, 4),
            "throughput": round(row.throughput, 2),
            "seeds": list(row.seeds),
        }
        for row in rows
    ]


def workload_tasks(
    seeds: Sequence[int],
    policies: Sequence[str],
    evictors: Sequence[str],
    *,
    held_out: bool = False,
    look_ahead: bool = False,
    hints: bool = False,
) -> list[Task]:
    return [
        Task(cell.name, policy, evictor, seed, "events", look_ahead, hints)
        for cell in (HELD_OUT if held_out else CELLS)
        for policy in policies
        for evictor in evictors
        for seed in seeds
    ]


def workload_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "workload": row.task.cell,
            "policy": label(row),
            "evictor": row.task.evictor,
            "look_ahead": row.task.look_ahead,
            "hints": row.task.hints,
            "held_out": find_cell(row.task.cell).held_out,
            "seeds": list(row.seeds),
            "ttft_p50_ms": round(row.ttft_p50_ms, 1),
            "ttft_p95_ms": round(row.ttft_p95_ms, 1),
            "ttft_p99_ms": round(row.ttft_p99_ms, 1),
            "lat_p50_ms": round(row.lat_p50_ms, 1),
            "lat_p95_ms": round(row.lat_p95_ms, 1),
            "hit_rate": round(row.hit_rate, 4),
            "throughput": round(row.throughput, 3),
            "imbalance": round(row.imbalance, 3),
            "refused": row.refused,
        }
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Standing:
    """One policy against the best of every workload: geometric means of ratios, and the worst."""

    ttft_p95: float
    worst: float
    lat_p50: float
    lat_p50_worst: float
    worst_workload: str
    lat_p50_worst_workload: str


def standings(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Per policy label, over the workloads in `rows` (one evictor, one row per cell and policy)."""
    best_ttft: dict[str, float] = {}
    best_p50: dict[str, float] = {}
    for row in rows:
        cell = row.task.cell
        best_ttft[cell] = min(best_ttft.get(cell, row.ttft_p95_ms), row.ttft_p95_ms)
        best_p50[cell] = min(best_p50.get(cell, row.lat_p50_ms), row.lat_p50_ms)
    ratios: dict[str, list[tuple[str, float, float]]] = {}
    for row in rows:
        cell = row.task.cell
        ratios.setdefault(label(row), []).append(
            (cell, row.ttft_p95_ms / best_ttft[cell], row.lat_p50_ms / best_p50[cell])
        )
    return {policy: asdict(_standing(entries)) for policy, entries in ratios.items()}


def _standing(entries: list[tuple[str, float, float]]) -> Standing:
    ttft = max(entries, key=lambda entry: entry[1])
    p50 = max(entries, key=lambda entry: entry[2])
    return Standing(
        ttft_p95=round(geometric_mean([entry[1] for entry in entries]), 4),
        worst=round(ttft[1], 4),
        lat_p50=round(geometric_mean([entry[2] for entry in entries]), 4),
        lat_p50_worst=round(p50[2], 4),
        worst_workload=ttft[0],
        lat_p50_worst_workload=p50[0],
    )


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(log(value) for value in values) / len(values))
