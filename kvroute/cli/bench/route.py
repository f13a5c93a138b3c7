"""`kvroute bench route`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from kvroute.cli.bench.options import emit, integers, json_option, redis_option
from kvroute.cli.extras import import_extra


@click.command("route")
@click.option(
    "--concurrency", callback=integers, metavar="N,...", default="1,32,128", show_default=True
)
@click.option("--workers", type=click.IntRange(1, 4096), default=64, show_default=True)
@click.option("--candidates", type=click.IntRange(1), default=8, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=2.0,
    show_default=True,
    help="Per concurrency.",
)
@click.option("--seed", type=int, default=7, show_default=True)
@redis_option
@json_option
def command(redis_url: str, as_json: bool, **options: Any) -> None:
    """Chooses and books through the router's own Redis client, in a closed loop: calls per second,
    round trips, and Redis' own time per call.

    A server given with --redis-url is used under the model name bench-route, and its statistics of
    commands are reset.

    \b
    Examples:
      kvroute bench route
      kvroute bench route --redis-url redis://127.0.0.1:6379 --concurrency 32 --json
    """
    if options["candidates"] > options["workers"]:
        raise click.BadParameter(
            f"{options['candidates']} candidates of {options['workers']} workers",
            param_hint="--candidates",
        )
    emit(asyncio.run(_measure(redis_url, options)), as_json)


async def _measure(redis_url: str, options: dict[str, Any]) -> dict[str, Any]:
    bench = import_extra("cache_index.bench.route", "router")
    if redis_url:
        result: dict[str, Any] = await bench.bench_route(redis_url, **options)
        return result
    embedded = import_extra("cache_index.embedded", "embedded")
    async with embedded.EmbeddedServer() as server:
        result = await bench.bench_route(server.url, **options)
        return result
