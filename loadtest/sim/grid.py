"""Many runs: one task per (cell, policy, evictor, seed), spread over processes, then averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from loadtest.sim.cells import BY_NAME, Cell
from loadtest.sim.fleet import simulate
from loadtest.sim.profile import Profile

Done = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Task:
    """One run. `policy` and `evictor` as the registries know them; `index` as in `FleetOptions`."""

    cell: str
    policy: str
    evictor: str
    seed: int = 1
    index: str = "events"
    look_ahead: bool = False
    hints: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A task's measures, or their means over several seeds. ms, shares, per second."""

    task: Task
    seeds: tuple[int, ...]
    calls: float
    refused: float
    ttft_p50_ms: float
    ttft_p95_ms: float
    ttft_p99_ms: float
    lat_p50_ms: float
    lat_p95_ms: float
    hit_rate: float
    throughput: float
    imbalance: float
    lat_p50_range: tuple[float, float] = (0.0, 0.0)
    """Least and greatest over the seeds."""


def find_cell(name: str) -> Cell:
    """Raises KeyError for an unknown name."""
    if name in BY_NAME:
        return BY_NAME[name]
    # Imported here: the paper's grid is made of tasks, and so needs this module.
    from loadtest.sim.paper_grid import GRID

    return GRID[name]


def tuned(policy: str, profile: Profile) -> str:
    """The policy's spec with what its authors measure beforehand: Preble profiles the hardware."""
    if policy != "preble":
        return policy
    speed = Profile().step_ms / profile.step_ms
    return f"preble:prefill_ms_per_token={profile.prefill_ms},decode_ms_per_token={1.0 / speed}"


def run_task(task: Task, traces: Path | None = None) -> Row:
    cell = find_cell(task.cell)
    options = replace(
        cell.fleet,
        policy=tuned(task.policy, cell.fleet.profile),
        evictor=task.evictor,
        index=task.index,
        look_ahead=task.look_ahead,
        hints=task.hints,
        seed=task.seed,
    )
    result = simulate(cell.workload(task.seed, traces), options)
    p50 = result.latency(0.5)
    return Row(
        task,
        (task.seed,),
        result.calls,
        result.refused,
        result.ttft(0.5),
        result.ttft(0.95),
        result.ttft(0.99),
        p50,
        result.latency(0.95),
        result.hit_rate,
        result.throughput,
        result.imbalance,
        (p50, p50),
    )


def run_grid(
    tasks: Sequence[Task], traces: Path | None, jobs: int, done: Done | None = None
) -> list[Row]:
    """Rows in the order of `tasks`, whatever the order in which they end."""
    rows: dict[int, Row] = {}
    if jobs <= 1:
        for number, task in enumerate(tasks):
            rows[number] = run_task(task, traces)
            if done is not None:
                done(number + 1, len(tasks))
        return [rows[number] for number in range(len(tasks))]
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(run_task, task, traces): n for n, task in enumerate(tasks)}
        for future in as_completed(futures):
            rows[futures[future]] = future.result()
            if done is not None:
                done(len(rows), len(tasks))
    return [rows[number] for number in range(len(tasks))]


def mean_over_seeds(rows: Sequence[Row]) -> list[Row]:
    """One row for all that differ in nothing but the seed, in order of first appearance."""
    groups: dict[Task, list[Row]] = {}
    for row in rows:
        groups.setdefault(replace(row.task, seed=0), []).append(row)
    return [_mean(group) for group in groups.values()]


def _mean(rows: list[Row]) -> Row:
    def mean(name: str) -> float:
        return fmean(getattr(row, name) for row in rows)

    p50 = [row.lat_p50_ms for row in rows]
    return Row(
        rows[0].task,
        tuple(row.task.seed for row in rows),
        mean("calls"),
        mean("refused"),
        mean("ttft_p50_ms"),
        mean("ttft_p95_ms"),
        mean("ttft_p99_ms"),
        mean("lat_p50_ms"),
        mean("lat_p95_ms"),
        mean("hit_rate"),
        mean("throughput"),
        mean("imbalance"),
        (min(p50), max(p50)),
    )
