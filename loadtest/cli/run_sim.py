"""What `kvroute sim` does once its options are known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from kvroute.errors import KvrouteError
from loadtest.cli.tables import print_rows
from loadtest.envelope import envelope
from loadtest.sim.cells import BY_NAME, CELLS, HELD_OUT, PAPER
from loadtest.sim.fleet import Progress, Simulation
from loadtest.sim.grid import Done, mean_over_seeds, run_grid, tuned
from loadtest.sim.options import Failure, FleetOptions
from loadtest.sim.presets import (
    DEFAULT_EVICTOR,
    PAPER_SEEDS,
    QUICK_RIVALS,
    ablation_rows,
    ablation_tasks,
    standings,
    workload_rows,
    workload_tasks,
)
from loadtest.sim.profile import load_profile
from loadtest.sim.replay import BELADY
from loadtest.sim.result import RunResult, quantiles
from loadtest.sim.single import GENERATED, TRACED, SingleTask, run_singles
from loadtest.sim.single import HELD_OUT as SINGLE_HELD_OUT
from loadtest.workloads.base import Workload, summarize
from loadtest.workloads.mooncake import TraceOptions
from loadtest.workloads.trace_lines import Skipped
from loadtest.workloads.traces import open_trace, trace_folder
from router_svc.policy.registry import DEFAULT, POLICIES, make
from worker_svc.kv.evict.registry import EVICTORS

MAX_WORKERS_SHOWN = 64


class SimError(KvrouteError):
    """The simulation asked for makes no sense; the message says what to change."""


def run(**flags: Any) -> None:
    if flags["listing"]:
        _list()
        return
    folder = trace_folder(flags["traces"])
    seeds = _seeds(flags["seeds"])
    if flags["preset"] is not None:
        _preset(flags, folder, seeds)
    elif flags["workload"]:
        _single_runs(flags, folder, seeds or (1,))
    else:
        raise SimError("say what to simulate: --preset, --workload, or --list")


def _list() -> None:
    click.echo("cells:     " + ", ".join(cell.name for cell in (*CELLS, PAPER)))
    click.echo("held out:  " + ", ".join(cell.name for cell in HELD_OUT))
    click.echo("policies:  " + ", ".join(POLICIES))
    click.echo("evictors:  " + ", ".join(EVICTORS))


def _preset(flags: dict[str, Any], folder: Path | None, seeds: tuple[int, ...]) -> None:
    name = flags["preset"]
    config: dict[str, Any] = {"preset": name, "jobs": flags["jobs"]}
    if name == "single-worker":
        seed = (seeds or (1,))[0]
        rows = _single_worker(flags, folder, seed)
        config["evictors"] = sorted({row["evictor"] for row in rows})
        content: dict[str, Any] = {"rows": rows}
        used: Sequence[int] = (seed,)
    elif name == "paper-ablation":
        used = seeds or PAPER_SEEDS
        tasks = ablation_tasks(used, DEFAULT_EVICTOR)
        with _progress() as done:
            means = mean_over_seeds(run_grid(tasks, folder, flags["jobs"], done))
        content = {"rows": ablation_rows(means)}
        config["cell"] = _described(PAPER.fleet)
    else:
        used = seeds or (1,)
        policies = flags["policies"] or (DEFAULT, *QUICK_RIVALS)
        evictors = flags["evictors"] or (DEFAULT_EVICTOR,)
        _say_what_is_missing(flags, folder)
        tasks = workload_tasks(
            used,
            policies,
            evictors,
            held_out=flags["held_out"],
            look_ahead=flags["look_ahead"],
            hints=flags["hints"],
        )
        with _progress() as done:
            means = mean_over_seeds(run_grid(tasks, folder, flags["jobs"], done))
        first = [row for row in means if row.task.evictor == evictors[0]]
        content = {"rows": workload_rows(means), "geomean": standings(first)}
        config["policies"], config["evictors"] = list(policies), list(evictors)
    print_rows(content)
    _emit(flags, envelope("sim", config, list(used), content))


def _single_worker(flags: dict[str, Any], folder: Path | None, seed: int) -> list[dict[str, Any]]:
    evictors = tuple(flags["evictors"]) or (*EVICTORS, BELADY)
    names = SINGLE_HELD_OUT if flags["held_out"] else (*GENERATED, *TRACED)
    tasks = [
        SingleTask(
            name,
            (evictor,),
            seed,
            look_ahead=32 if flags["look_ahead"] else 0,
            hints="declared" if flags["hints"] else "",
        )
        for name in names
        for evictor in evictors
    ]
    with _progress() as done:
        rows = run_singles(tasks, folder, flags["jobs"], done)
    missing = set(names) - {row["workload"] for row in rows}
    if missing:
        click.echo(f"left out, no trace at hand: {', '.join(sorted(missing))}", err=True)
    return rows


def _single_runs(flags: dict[str, Any], folder: Path | None, seeds: tuple[int, ...]) -> None:
    policies = flags["policies"] or (("lbgr",) if flags["paper"] else (DEFAULT,))
    evictors = flags["evictors"] or (("rlt",) if flags["paper"] else (DEFAULT_EVICTOR,))
    rows = []
    for seed in seeds:
        skipped = Skipped()
        workload, fleet = _workload(flags, folder, seed, skipped)
        for policy in policies:
            for evictor in evictors:
                options = _options(flags, fleet, policy, evictor, seed)
                with _progress() as done:
                    result = Simulation(workload, options).run(_counting(done))
                rows.append(_row(workload, policy, evictor, seed, result))
        for message in skipped.messages:
            click.echo(f"skipped {message}", err=True)
    summary = summarize(workload.flat(), workload.block_size)
    content = {"rows": rows, "workload": asdict(summary)}
    print_rows(content)
    config = {"workload": flags["workload"], "fleet": _described(fleet)}
    _emit(flags, envelope("sim", config, list(seeds), content))


def _workload(
    flags: dict[str, Any], folder: Path | None, seed: int, skipped: Skipped
) -> tuple[Workload, FleetOptions]:
    name = flags["workload"]
    cell = BY_NAME.get(name)
    if cell is not None:
        note = cell.note(folder)
        if note:
            click.echo(f"{name}: {note}", err=True)
        return cell.workload(seed, folder), cell.fleet
    path = Path(name)
    if not path.is_file():
        known = ", ".join(BY_NAME)
        raise SimError(f"{name} is neither a trace file nor a cell; cells are: {known}")
    options = TraceOptions(lenient=flags["lenient"])
    return open_trace(path, options, skipped), FleetOptions()


def _options(
    flags: dict[str, Any], fleet: FleetOptions, policy: str, evictor: str, seed: int
) -> FleetOptions:
    if evictor not in EVICTORS:
        raise SimError(f"unknown evictor {evictor}; known are {', '.join(EVICTORS)}")
    try:
        make(policy)
    except KeyError:
        raise SimError(f"unknown policy {policy}; known are {', '.join(POLICIES)}") from None
    except ValueError as error:
        raise SimError(str(error)) from None
    profile = load_profile(flags["profile"]) if flags["profile"] else fleet.profile
    return replace(
        fleet,
        policy=tuned(policy, profile),
        evictor=evictor,
        seed=seed,
        profile=profile,
        workers=flags["workers"] or fleet.workers,
        blocks=flags["blocks"] or fleet.blocks,
        stretch=flags["stretch"] or fleet.stretch,
        index=flags["index"],
        routers=flags["routers"],
        ledger_lag_ms=flags["ledger_lag_ms"],
        index_delay_ms=flags["index_delay_ms"],
        look_ahead=flags["look_ahead"],
        hints=flags["hints"],
        failures=tuple(_failure(text) for text in flags["failures"]),
    )


def _failure(text: str) -> Failure:
    """`2@10` or `2@10+3`: worker 2 is lost after 10 s, for 3 s."""
    worker, _, times = text.partition("@")
    at, _, down = times.partition("+")
    try:
        return Failure(int(worker), float(at), float(down) if down else 5.0)
    except ValueError:
        raise SimError(f"--fail {text}: write WORKER@SECONDS or WORKER@SECONDS+DOWN") from None


def _counting(done: Done | None) -> Progress | None:
    """A run's progress shown on a bar of unknown length."""
    if done is None:
        return None
    show = done
    return lambda count: show(count, 0)


def _row(
    workload: Workload, policy: str, evictor: str, seed: int, result: RunResult
) -> dict[str, Any]:
    return {
        "workload": workload.name,
        "policy": policy,
        "evictor": evictor,
        "seed": seed,
        "calls": result.calls,
        "refused": result.refused,
        "retried": result.retried,
        "ttft_p50_ms": round(result.ttft(0.5), 1),
        "ttft_p95_ms": round(result.ttft(0.95), 1),
        "lat_p50_ms": round(result.latency(0.5), 1),
        "lat_p95_ms": round(result.latency(0.95), 1),
        "hit_rate": round(result.hit_rate, 4),
        "throughput": round(result.throughput, 3),
        "imbalance": round(result.imbalance, 3),
        "busy": [round(share, 3) for share in result.busy[:MAX_WORKERS_SHOWN]],
        "ttft_quantiles_ms": quantiles(result.ttft_ms),
        "latency_quantiles_ms": quantiles(result.latency_ms),
        "timeline": {
            "interval_s": result.timeline.interval_ms / 1000.0,
            "running": [row[:MAX_WORKERS_SHOWN] for row in result.timeline.running],
            "waiting": [row[:MAX_WORKERS_SHOWN] for row in result.timeline.waiting],
        },
    }


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise SimError(f"--seeds {text!r}: write whole numbers, separated by commas") from None


def _say_what_is_missing(flags: dict[str, Any], folder: Path | None) -> None:
    for cell in HELD_OUT if flags["held_out"] else CELLS:
        note = cell.note(folder)
        if note:
            click.echo(f"{cell.name}: {note}", err=True)


def _described(fleet: FleetOptions) -> dict[str, Any]:
    return asdict(fleet)


def _emit(flags: dict[str, Any], line: str) -> None:
    if flags["out"] is not None:
        with flags["out"].open("a") as file:
            file.write(line + "\n")
    if flags["as_json"]:
        click.echo(line)


@contextmanager
def _progress() -> Iterator[Done | None]:
    """A progress bar on a terminal's stderr, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=None)

        def done(count: int, total: int) -> None:
            bar.update(task, completed=count, total=total or None)

        yield done
