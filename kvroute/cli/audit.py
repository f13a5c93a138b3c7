"""`kvroute audit`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvroute.cli.control_settings import ControlSettings, each_model
from kvroute.cli.extras import import_extra
from kvroute.cli.options import click_options, from_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cache_index.audit import WorkerComparison
    from cache_index.audit_run import ModelAudit

WIDTH = 120


@click.command("audit")
@click_options(ControlSettings, "control")
@click.option(
    "--patience-s",
    type=click.FloatRange(0),
    default=5.0,
    show_default=True,
    help="Seconds that a worker in motion may take to agree.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(config: Path | None, patience_s: float, as_json: bool, **flags: object) -> None:
    """Checks the index: reads every worker's blocks as a new router would, and compares count and
    digest with what the worker published and with what it says its cache holds.

    Exit code 1 if a worker differs and goes on to differ.

    \b
    Examples:
      kvroute audit
      kvroute audit --redis-url redis://10.0.0.2:6379 --model my-model --json
    """
    settings = from_options(ControlSettings, "control", config, flags)
    source = import_extra("cache_index.audit_run", "router")
    from kvroute.log import configure

    configure("error", "audit")

    async def ask(client: Any, name: str) -> ModelAudit:
        found: ModelAudit = await source.audit_model(
            settings.redis_url, name, patience_s=patience_s
        )
        return found

    models = each_model(settings, ask)
    equal = all(model.equal for model in models)
    if as_json:
        click.echo(to_json(models))
    else:
        from rich.console import Console

        Console(width=None if sys.stdout.isatty() else WIDTH).print(audit_table(models))
    click.get_current_context().exit(0 if equal else 1)


def to_json(models: Sequence[ModelAudit]) -> str:
    """One line; digests are hexadecimal texts, since they do not fit a JSON number."""
    shown = []
    for model in models:
        workers = [asdict(one) | {"difference": one.difference} for one in model.workers]
        for worker in workers:
            for side in ("ours", "published", "own"):
                if worker[side] is not None:
                    worker[side]["digest"] = f"{worker[side]['digest']:016x}"
        shown.append({"model": model.served_name, "equal": model.equal, "workers": workers})
    return json.dumps({"equal": all(model.equal for model in models), "models": shown})


def audit_table(models: Sequence[ModelAudit]) -> RenderableType:
    """One table per model. Pure."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not models:
        return Text("no model is served", style="yellow")
    tables = []
    for model in models:
        table = Table(title=model.served_name, title_justify="left")
        for name in ("worker", "epoch", "seq", "view", "published", "worker's own", ""):
            right = name in ("seq", "view", "published", "worker's own")
            table.add_column(name, justify="right" if right else "left")
        for one in model.workers:
            table.add_row(*_cells(one), style="" if one.equal else "red")
        tables.append(table)
    return Group(*tables)


def _cells(one: WorkerComparison) -> tuple[str, ...]:
    side = one.published or one.ours
    counts = [str(found.blocks) if found else "-" for found in (one.ours, one.published, one.own)]
    stand = (str(side.epoch), str(side.seq)) if side else ("-", "-")
    return (one.worker, *stand, *counts, one.difference or "equal")
