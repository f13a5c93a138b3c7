"""What `kvroute sim` does once its options are known."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from kvroute.bench.common import common, one_line
from loadtest.cli.output import UsageError, emit, progress, write_csv
from loadtest.cli.run_preset import run_preset
from loadtest.cli.tables import print_rows
from loadtest.sim.cells import BY_NAME, CELLS, CHAT_ONE, HELD_OUT, PAPER
from loadtest.sim.fleet import Progress, Simulation
from loadtest.sim.grid import Done, tuned
from loadtest.sim.options import Failure, FleetOptions
from loadtest.sim.presets import DEFAULT_EVICTOR
from loadtest.sim.profile import load_profile
from loadtest.sim.result import RunResult, quantiles
from loadtest.workloads.base import Workload, summarize
from loadtest.workloads.mooncake import TraceOptions
from loadtest.workloads.trace_lines import Skipped
from loadtest.workloads.traces import open_trace, trace_folder
from router_svc.policy.registry import DEFAULT, POLICIES, make
from worker_svc.kv.evict.registry import EVICTORS

MAX_WORKERS_SHOWN = 64


def run(**flags: Any) -> None:
    if flags["listing"]:
        _list()
        return
    folder = trace_folder(flags["traces"])
    seeds = _seeds(flags["seeds"])
    if flags["preset"] is not None:
        run_preset(flags, folder, seeds)
    elif flags["workload"]:
        _single_runs(flags, folder, seeds or (1,))
    else:
        raise UsageError("say what to simulate: --preset, --workload, or --list")


def _list() -> None:
    click.echo("cells:     " + ", ".join(cell.name for cell in (*CELLS, PAPER, CHAT_ONE)))
    click.echo("held out:  " + ", ".join(cell.name for cell in HELD_OUT))
    click.echo("policies:  " + ", ".join(POLICIES))
    click.echo("evictors:  " + ", ".join(EVICTORS))


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
                with progress() as done:
                    result = Simulation(workload, options).run(_counting(done))
                rows.append(_row(workload, policy, evictor, seed, result))
        for message in skipped.messages:
            click.echo(f"skipped {message}", err=True)
    summary = summarize(workload.flat(), workload.block_size)
    content = {"rows": rows, "workload": asdict(summary)}
    print_rows(content)
    config = {"workload": flags["workload"], "fleet": asdict(fleet)}
    line = one_line(common("sim", config, list(seeds)) | content)
    emit(line, flags["out"], flags["as_json"])
    if flags["csv_file"] is not None:
        write_csv(rows, flags["csv_file"])


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
        raise UsageError(f"{name} is neither a trace file nor a cell; cells are: {known}")
    options = TraceOptions(lenient=flags["lenient"])
    return open_trace(path, options, skipped), FleetOptions()


def _options(
    flags: dict[str, Any], fleet: FleetOptions, policy: str, evictor: str, seed: int
) -> FleetOptions:
    if evictor not in EVICTORS:
        raise UsageError(f"unknown evictor {evictor}; known are {', '.join(EVICTORS)}")
    try:
        make(policy)
    except KeyError:
        raise UsageError(f"unknown policy {policy}; known are {', '.join(POLICIES)}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
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
        raise UsageError(f"--fail {text}: write WORKER@SECONDS or WORKER@SECONDS+DOWN") from None


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
        raise UsageError(f"--seeds {text!r}: write whole numbers, separated by commas") from None
