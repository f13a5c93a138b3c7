"""`kvroute bench index`."""

from __future__ import annotations

import click

from kvroute.cli.bench.options import (
    emit,
    integers,
    json_option,
    names,
    redis_option,
    vs_option,
)
from kvroute.cli.extras import import_extra


@click.command("index")
@click.option(
    "--workers", callback=integers, metavar="N,...", default="4,64,256", show_default=True
)
@click.option(
    "--blocks",
    callback=integers,
    metavar="N,...",
    default="100000,1000000,5000000",
    show_default=True,
)
@click.option("--bootstrap-blocks", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--seed", type=int, default=7, show_default=True)
@redis_option
@vs_option
@json_option
def command(
    workers: tuple[int, ...],
    blocks: tuple[int, ...],
    bootstrap_blocks: int,
    seed: int,
    redis_url: str,
    vs: str,
    as_json: bool,
) -> None:
    """Looks 512-block prompts up in a view of all sizes given; events per second, bytes per block,
    and how long a new router takes to know a worker of --bootstrap-blocks.

    --vs dynamo: the same lookups through the RadixTree binding of ai-dynamo-runtime.

    \b
    Examples:
      kvroute bench index                                   minutes, 2 GB
      kvroute bench index --workers 64 --blocks 1000000 --vs dynamo --json
    """
    bench = import_extra("cache_index.bench.index", "router")
    result = bench.bench_index(
        workers,
        blocks,
        seed,
        redis_url=redis_url,
        bootstrap_blocks=bootstrap_blocks,
        vs=names(vs),
    )
    emit(result, as_json)
