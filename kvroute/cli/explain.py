"""`kvroute explain`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvroute.cli.client_settings import ClientSettings
from kvroute.cli.options import click_options, from_options
from kvroute.cli.status import WIDTH

if TYPE_CHECKING:
    from kvroute.v1.router_pb2 import Explain


@click.command("explain")
@click_options(ClientSettings, "client")
@click.argument("request_id")
@click.option("--json", "as_json", is_flag=True, help="Print the record as one JSON object.")
def command(config: Path | None, request_id: str, as_json: bool, **flags: object) -> None:
    """Says why a finished request went where it went: every candidate with its costs, the hit that
    was predicted and the hit that was delivered.

    The id comes with every answer: gRPC metadata kvroute-request-id, `kvroute generate --explain`.
    A router keeps its last records (--explain-ring), and an id names its router.

    \b
    Examples:
      kvroute explain r5c0ffee1-2a
      kvroute explain r5c0ffee1-2a --json
    """
    settings = from_options(ClientSettings, "client", config, flags)
    found = asyncio.run(fetch(settings.address, request_id))
    if as_json:
        from google.protobuf.json_format import MessageToJson

        click.echo(MessageToJson(found, indent=None, preserving_proto_field_name=True))
        return
    from rich.console import Console

    from kvroute.cli.explain_table import explain_table

    Console(width=None if sys.stdout.isatty() else WIDTH).print(explain_table(found))


async def fetch(address: str, request_id: str) -> Explain:
    """Raises NotFound when that router does not know the request."""
    from kvroute.client import Client

    async with Client(address) as client:
        return await client.explain(request_id)
