"""`kvroute generate`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvroute.cli.client_settings import ClientSettings
from kvroute.cli.options import click_options, from_options
from kvroute.cli.sampling import given, sampling_options

if TYPE_CHECKING:
    from kvroute.client import Client, Generation


@click.command("generate")
@click.argument("prompt")
@click.option("--chat", is_flag=True, help="Use the model's chat template.")
@click.option("--system", default="", metavar="TEXT", help="System message; implies --chat.")
@click.option("--token-ids", is_flag=True, help="The prompt is comma-separated token ids.")
@click.option("--explain", is_flag=True, help="Say which worker answered, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end instead.")
@sampling_options
@click_options(ClientSettings, "client")
def command(
    prompt: str,
    chat: bool,
    system: str,
    token_ids: bool,
    explain: bool,
    as_json: bool,
    config: Path | None,
    address: str | None,
    **sampling: object,
) -> None:
    """Generates text from PROMPT ("-" reads standard input) and prints it as it comes.

    \b
    Examples:
      kvroute generate "The capital of France is" --max-tokens 16
      kvroute generate --chat "Explain KV caches in one sentence." --explain
      kvroute generate --token-ids 1,2,3 --json
      cat report.txt | kvroute generate --system "Summarize." - --temperature 0.7 --seed 1
    """
    settings = from_options(ClientSettings, "client", config, {"address": address})
    text = sys.stdin.read() if prompt == "-" else prompt
    request = {**prompt_input(text, chat, system, token_ids), **given(sampling)}
    asyncio.run(run(settings.address, request, as_json=as_json, explain=explain))


def prompt_input(text: str, chat: bool, system: str, token_ids: bool) -> dict[str, object]:
    """The one input of `Client.generate` that the options ask for. Raises click.UsageError."""
    if token_ids:
        if chat or system:
            raise click.UsageError("--token-ids cannot be used with --chat or --system.")
        try:
            return {"token_ids": [int(part) for part in text.replace(",", " ").split()]}
        except ValueError:
            raise click.UsageError("--token-ids needs whole numbers, as in 1,2,3.") from None
    if not chat and not system:
        return {"prompt": text}
    messages = [{"role": "system", "content": system}] if system else []
    return {"messages": [*messages, {"role": "user", "content": text}]}


async def run(
    address: str, request: Mapping[str, Any], *, as_json: bool = False, explain: bool = False
) -> None:
    from kvroute.client import Client

    async with Client(address) as client:
        if as_json:
            click.echo(json.dumps(await collect(client, request)))
            return
        generation = await stream(client, request)
        click.echo()
        if explain:
            from rich.console import Console

            from kvroute.cli.explain_table import explain_table

            Console(stderr=True).print(explain_table(generation.explain))


async def stream(client: Client, request: Mapping[str, Any]) -> Generation:
    """Prints the text as it comes; returns the generation, which has ended."""
    async with client.generate(**request) as generation:
        async for chunk in generation:
            click.echo(chunk.text, nl=False)
    return generation


async def collect(client: Client, request: Mapping[str, Any]) -> dict[str, object]:
    """The whole answer as plain values."""
    from google.protobuf.json_format import MessageToDict

    parts: list[str] = []
    ids: list[int] = []
    async with client.generate(**request) as generation:
        async for chunk in generation:
            parts.append(chunk.text)
            ids.extend(chunk.token_ids)

    def plain(message: Any) -> dict[str, object] | None:
        if message is None:
            return None
        shown: dict[str, object] = MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        return shown

    return {
        "request_id": await generation.request_id(),
        "text": "".join(parts),
        "token_ids": ids,
        "finish_reason": generation.finish_reason,
        "usage": plain(generation.usage),
        "explain": plain(generation.explain),
    }
