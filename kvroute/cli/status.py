"""`kvroute status`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvroute.cli.client_settings import ClientSettings
from kvroute.cli.options import click_options, from_options

if TYPE_CHECKING:
    from kvroute.v1.router_pb2 import ClusterStateResponse

WIDTH = 120


@click.command("status")
@click_options(ClientSettings, "client")
@click.option("--json", "as_json", is_flag=True, help="Print the whole state as one JSON object.")
def command(config: Path | None, as_json: bool, **flags: object) -> None:
    """Shows the models, workers and caches that a router knows.

    \b
    Examples:
      kvroute status
      kvroute status --address 10.0.0.5:50050
      kvroute status --json
    """
    settings = from_options(ClientSettings, "client", config, flags)
    state = asyncio.run(fetch(settings.address))
    if as_json:
        click.echo(to_json(state))
        return
    from rich.console import Console

    from kvroute.cli.table import cluster_table

    # Without a terminal the width is a guess, and too small a one cuts names off.
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(cluster_table(state))


async def fetch(address: str) -> ClusterStateResponse:
    """Raises Unavailable when no router answers."""
    from kvroute.client import Client

    async with Client(address) as client:
        return await client.cluster_state()


def to_json(state: ClusterStateResponse) -> str:
    """One line; every field is present, 64-bit numbers are numbers."""
    from google.protobuf.json_format import MessageToDict

    shown = MessageToDict(
        state, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    for model in shown["models"]:
        for name in ("resyncs", "gaps"):
            model[name] = int(model[name])
        for worker in model["workers"]:
            for name in ("epoch", "sequence", "cached_blocks", "total_blocks"):
                worker[name] = int(worker[name])
    return json.dumps(shown)
