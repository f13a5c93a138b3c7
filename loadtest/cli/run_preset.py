"""The fixed studies of `kvroute sim --preset`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from kvroute.bench.common import common, one_line
from loadtest.cli.output import UsageError, emit, progress, write_csv
from loadtest.cli.tables import print_rows
from loadtest.sim.cells import CELLS, HELD_OUT, PAPER
from loadtest.sim.grid import Row, Task, mean_over_seeds, run_grid
from loadtest.sim.paper_grid import paper_tasks
from loadtest.sim.presets import (
    ALL_RIVALS,
    DEFAULT_EVICTOR,
    PAPER_SEEDS,
    QUICK_RIVALS,
    ablation_rows,
    ablation_tasks,
    standings,
    workload_rows,
    workload_tasks,
)
from loadtest.sim.replay import BELADY
from loadtest.sim.single import GENERATED, TRACED, SingleTask, run_singles
from loadtest.sim.single import HELD_OUT as SINGLE_HELD_OUT
from router_svc.policy.registry import DEFAULT
from worker_svc.kv.evict.registry import EVICTORS

LOOK_AHEAD = 32


@dataclass(frozen=True, slots=True)
class Study:
    """What a preset gives: its configuration, the seeds it used, and `rows` with what else."""

    config: dict[str, Any]
    seeds: Sequence[int]
    content: dict[str, Any]


def run_preset(flags: dict[str, Any], traces: Path | None, seeds: tuple[int, ...]) -> None:
    studies: dict[str, Callable[[dict[str, Any], Path | None, tuple[int, ...]], Study]] = {
        "single-worker": _single_worker,
        "paper-ablation": _ablation,
        "paper-grid": _grid,
        "all-workloads": _workloads,
    }
    name = flags["preset"]
    study = studies[name](flags, traces, seeds)
    print_rows(study.content)
    config = {"preset": name, "jobs": flags["jobs"], **study.config}
    line = one_line(common("sim", config, list(study.seeds)) | dict(study.content))
    emit(line, flags["out"], flags["as_json"])
    if flags["csv_file"] is not None:
        write_csv(study.content["rows"], flags["csv_file"])


def _wanted(flags: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The workloads of the study, or those of them that `--workload A,B` names.

    Raises:
        UsageError: the study has no such workload.
    """
    known = list(dict.fromkeys(names))
    asked = [name for name in (flags["workload"] or "").split(",") if name]
    for name in asked:
        if name not in known:
            raise UsageError(f"this study has no workload {name}; it has: {', '.join(known)}")
    return asked or known


def _means(tasks: Sequence[Task], traces: Path | None, jobs: int) -> list[Row]:
    with progress() as done:
        return mean_over_seeds(run_grid(tasks, traces, jobs, done))


def _ablation(flags: dict[str, Any], traces: Path | None, seeds: tuple[int, ...]) -> Study:
    seeds = seeds or PAPER_SEEDS
    rows = _means(ablation_tasks(seeds, DEFAULT_EVICTOR), traces, flags["jobs"])
    return Study({"cell": asdict(PAPER.fleet)}, seeds, {"rows": ablation_rows(rows)})


def _grid(flags: dict[str, Any], traces: Path | None, seeds: tuple[int, ...]) -> Study:
    seeds = seeds or (1,)
    rows = _means(paper_tasks(seeds, DEFAULT_EVICTOR), traces, flags["jobs"])
    return Study({"evictor": DEFAULT_EVICTOR}, seeds, {"rows": workload_rows(rows)})


def _workloads(flags: dict[str, Any], traces: Path | None, seeds: tuple[int, ...]) -> Study:
    seeds = seeds or (1,)
    rivals = ALL_RIVALS if flags["all_policies"] else QUICK_RIVALS
    policies = flags["policies"] or (DEFAULT, *rivals)
    evictors = flags["evictors"] or (DEFAULT_EVICTOR,)
    for cell in HELD_OUT if flags["held_out"] else CELLS:
        note = cell.note(traces)
        if note:
            click.echo(f"{cell.name}: {note}", err=True)
    tasks = workload_tasks(
        seeds,
        policies,
        evictors,
        held_out=flags["held_out"],
        look_ahead=flags["look_ahead"],
        hints=flags["hints"],
    )
    names = _wanted(flags, [task.cell for task in tasks])
    tasks = [task for task in tasks if task.cell in names]
    rows = _means(tasks, traces, flags["jobs"])
    first = [row for row in rows if row.task.evictor == evictors[0]]
    content = {"rows": workload_rows(rows), "geomean": standings(first)}
    return Study({"policies": list(policies), "evictors": list(evictors)}, seeds, content)


def _single_worker(flags: dict[str, Any], traces: Path | None, seeds: tuple[int, ...]) -> Study:
    seed = (seeds or (1,))[0]
    evictors = tuple(flags["evictors"]) or (*EVICTORS, BELADY)
    names = _wanted(flags, SINGLE_HELD_OUT if flags["held_out"] else (*GENERATED, *TRACED))
    tasks = [
        SingleTask(
            name,
            (evictor,),
            seed,
            look_ahead=LOOK_AHEAD if flags["look_ahead"] else 0,
            hints="declared" if flags["hints"] else "",
        )
        for name in names
        for evictor in evictors
    ]
    with progress() as done:
        rows = run_singles(tasks, traces, flags["jobs"], done)
    missing = set(names) - {row["workload"] for row in rows}
    if missing:
        click.echo(f"left out, no trace at hand: {', '.join(sorted(missing))}", err=True)
    return Study({"evictors": list(evictors)}, (seed,), {"rows": rows})
