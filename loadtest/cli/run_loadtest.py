"""What `kvroute loadtest` does once its options are known."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from kvroute.bench.common import common, one_line
from loadtest.cli.output import UsageError, emit, write_csv
from loadtest.cli.tables import table
from loadtest.live.compare import compare
from loadtest.live.openai_target import OpenAiTarget
from loadtest.live.record import Record
from loadtest.live.record_file import load_records, save_records
from loadtest.live.sender import Sender, SendOptions
from loadtest.live.summary import Slo, summarize_run
from loadtest.live.target import GrpcTarget, Service, Target
from loadtest.sim.cells import BY_NAME
from loadtest.workloads.base import Workload
from loadtest.workloads.traces import open_trace, trace_folder

SHOWN = (
    *("requests", "failed", "fell_behind", "ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms"),
    *("itl_p99_ms", "lat_p50_ms", "lat_p95_ms", "hit_rate", "throughput", "goodput"),
    *("imbalance", "lateness_p99_ms"),
)


def run(**flags: Any) -> int:
    workload = _workload(flags)
    options = SendOptions(
        stretch=flags["stretch"],
        shrink=flags["shrink"],
        concurrency=flags["concurrency"],
        limit=flags["limit"],
        warm_up=flags["warm_up"],
        output_cap=flags["output_cap"],
        hints=flags["hints"],
        seed=flags["seed"],
    )
    service, records = asyncio.run(_send(flags, workload, options))
    slo = Slo(flags["slo_ttft_ms"] / 1000.0, flags["slo_tpot_ms"] / 1000.0)
    row = {
        "workload": workload.name,
        "policy": flags["policy"] or "router's default",
        "front": "http" if flags["http"] else "grpc",
        **summarize_run(records, slo),
    }
    click.echo(table([{name: row[name] for name in ("workload", "policy", *SHOWN)}]))
    content: dict[str, Any] = {"rows": [row]}
    if flags["records"]:
        save_records(records, flags["records"])
    if flags["compare"]:
        differences = compare(load_records(flags["compare"]), records)
        lines = [{**asdict(one), "certain": one.certain} for one in differences]
        click.echo()
        click.echo(table(lines))
        content["compare"] = lines
    config = {**asdict(options), "workload": flags["workload"], "service": asdict(service)}
    line = one_line(common("loadtest", config, flags["seed"]) | content)
    emit(line, flags["out"], flags["as_json"])
    if flags["csv_file"] is not None:
        write_csv([row], flags["csv_file"])
    if row["fell_behind"]:
        click.echo("the sender fell behind: this run measures the client, not the fleet", err=True)
    return 1 if row["failed"] or row["fell_behind"] else 0


async def _send(
    flags: dict[str, Any], workload: Workload, options: SendOptions
) -> tuple[Service, list[Record]]:
    target: Target = (
        OpenAiTarget(flags["http"])
        if flags["http"]
        else GrpcTarget(flags["address"], flags["policy"])
    )
    async with target:
        service = await target.describe()
        sender = Sender(target, service, options)
        records = await sender.run(workload, _show if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        click.echo(err=True)
    return service, records


def _show(sent: int, done: int, failed: int) -> None:
    click.echo(f"\rsent {sent}, done {done}, failed {failed}", err=True, nl=False)


def _workload(flags: dict[str, Any]) -> Workload:
    name = flags["workload"]
    folder = trace_folder(flags["traces"])
    cell = BY_NAME.get(name)
    if cell is not None:
        return cell.workload(flags["seed"], folder)
    path = Path(name)
    if not path.is_file():
        known = ", ".join(BY_NAME)
        raise UsageError(f"{name} is neither a trace file nor a workload; known are: {known}")
    return open_trace(path)
