"""`kvroute weights`."""

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

    from cache_index.weights import ModelWeights

WIDTH = 120


@click.command("weights")
@click_options(ControlSettings, "control")
@click.option("--reset", is_flag=True, help="Forget what was learned, for all routers at once.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(config: Path | None, reset: bool, as_json: bool, **flags: object) -> None:
    """Shows what routers have learned of each worker's speed, from Redis.

    Prefill of h cached and m missing tokens costs base + hit * h / 1000 + miss * m / 1000 ms plus
    attention; a decode step of n requests costs step base + step * n ms. `seen` counts the requests
    that taught it since the worker started.

    \b
    Examples:
      kvroute weights
      kvroute weights --redis-url redis://10.0.0.2:6379 --model my-model --json
      kvroute weights --reset                     after a change of hardware, say
    """
    settings = from_options(ControlSettings, "control", config, flags)
    source = import_extra("cache_index.weights", "router")

    async def ask(client: Any, name: str) -> ModelWeights:
        if reset:
            await source.reset_weights(client, name)
        found: ModelWeights = await source.read_weights(client, name)
        return found

    models = each_model(settings, ask)
    if as_json:
        click.echo(json.dumps({"reset": reset, "models": [asdict(model) for model in models]}))
        return
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(weights_table(models))
    if reset:
        console.print("forgotten; routers learn anew from the next requests")


def weights_table(models: Sequence[ModelWeights]) -> RenderableType:
    """One table per model. Pure."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not models:
        return Text("no model is served", style="yellow")
    tables = []
    for model in models:
        title = f"{model.served_name}  (mean answer {model.mean_output:.1f} tokens)"
        table = Table(title=title, title_justify="left")
        table.add_column("worker")
        for name in ("base ms", "hit/1k", "miss/1k", "attention", "step base", "step", "seen"):
            table.add_column(name, justify="right")
        for worker in model.workers:
            costs = worker.costs
            table.add_row(
                worker.worker_id,
                *(f"{value:.2f}" for value in (costs.base_ms, costs.hit_ms, costs.miss_ms)),
                f"{costs.attention:.2e}",
                *(f"{value:.2f}" for value in (costs.step_base_ms, costs.step_ms)),
                str(worker.prefills),
            )
        tables.append(table)
    return Group(*tables)
