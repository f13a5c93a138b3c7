"""`kvroute sim`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

PRESETS = ("paper-ablation", "all-workloads", "single-worker", "paper-grid")


@click.command("sim")
@click.option("--preset", type=click.Choice(PRESETS), help="A fixed study, instead of one run.")
@click.option(
    "--workload",
    metavar="NAME|FILE",
    help="A named cell (`--list`), or a trace file to replay on a fleet of your own. With a "
    "preset: the only workloads of it to run (A,B,...).",
)
@click.option("--policy", "policies", multiple=True, metavar="SPEC", help="May be repeated.")
@click.option("--evictor", "evictors", multiple=True, metavar="NAME", help="May be repeated.")
@click.option("--paper", is_flag=True, help="rlt and lbgr as published.")
@click.option("--seeds", default="", metavar="1,2,...", help="Seeds to average over.")
@click.option("--jobs", default=1, show_default=True, help="Processes.")
@click.option("--workers", type=click.IntRange(1), help="Workers of the fleet.")
@click.option("--blocks", type=click.IntRange(1), help="KV blocks per worker.")
@click.option("--index", type=click.Choice(["events", "history"]), default="events")
@click.option("--routers", type=click.IntRange(1), default=1, show_default=True)
@click.option("--ledger-lag-ms", type=click.FloatRange(0), default=0.0, show_default=True)
@click.option("--index-delay-ms", type=click.FloatRange(0), default=5.0, show_default=True)
@click.option("--stretch", type=float, help="Multiplies arrival and think times.")
@click.option("--look-ahead", is_flag=True, help="Queued requests lock what they will hit.")
@click.option("--hints", is_flag=True, help="Clients declare what they will not use again.")
@click.option("--all-policies", is_flag=True, help="Every policy, not only the strongest rivals.")
@click.option("--held-out", is_flag=True, help="The held-out workloads instead.")
@click.option("--fail", "failures", multiple=True, metavar="WORKER@S[+DOWN]", help="Lose a worker.")
@click.option("--profile", type=click.Path(path_type=Path), help="Cost profile (JSON).")
@click.option("--traces", type=click.Path(path_type=Path), help="Folder of traces.")
@click.option("--lenient", is_flag=True, help="Skip broken trace lines instead of refusing them.")
@click.option("--list", "listing", is_flag=True, help="List cells, policies and evictors.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object as the last line.")
@click.option("--out", type=click.Path(path_type=Path), help="Append the JSON line to a file.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write the rows as CSV.")
def command(**flags: Any) -> None:
    """Simulates a fleet in virtual time, with the policies and evictors that serve.

    \b
    Examples:
      kvroute sim --workload gsp_random --policy lbgr_plus --policy llmd --evictor rlt
      kvroute sim --workload trace.jsonl --workers 8 --blocks 4000
      kvroute sim --preset paper-ablation --json
      kvroute sim --preset all-workloads --jobs 2 --json
    """
    # Imported late: `kvroute --help` and `kvroute sim --help` read none of it.
    from loadtest.cli.run_sim import run

    run(**flags)
