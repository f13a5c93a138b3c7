"""`kvroute bench evict`."""

from __future__ import annotations

import click

from kvroute.cli.bench.options import emit, integers, json_option
from kvroute.cli.extras import import_extra


@click.command("evict")
@click.option(
    "--sizes",
    callback=integers,
    metavar="N,...",
    default="10000,100000",
    show_default=True,
    help="Blocks.",
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@json_option
def command(sizes: tuple[int, ...], rounds: int, seed: int, as_json: bool) -> None:
    """Evicts half of a full cache with every evictor, through the block pool as the engine uses it.
    `walk_ratio`: how many evictions one walk over the whole tree would pay for.

    \b
    Examples:
      kvroute bench evict
      kvroute bench evict --sizes 100000 --rounds 5 --json
    """
    bench = import_extra("worker_svc.bench.evict", "worker")
    emit(bench.bench_evict(sizes, seed=seed, rounds=rounds), as_json)
