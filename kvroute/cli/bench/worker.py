"""`kvroute bench worker`."""

from __future__ import annotations

import click

from kvroute.cli.bench.options import emit, json_option, names, vs_option
from kvroute.cli.extras import import_extra


@click.command("worker")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--kernel", default="auto", show_default=True, help="As of `kvroute worker`.")
@click.option(
    "--new-tokens",
    type=click.IntRange(2),
    default=32,
    show_default=True,
    help="Decoded per prompt.",
)
@click.option(
    "--clock",
    type=click.Choice(["wall", "cpu"]),
    default="wall",
    show_default=True,
    help="cpu: this process's processor time, for machines that others use as well.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@vs_option
@json_option
def command(
    rounds: int, kernel: str, new_tokens: int, clock: str, seed: int, vs: str, as_json: bool
) -> None:
    """Runs a small Llama with random weights: tokens per second of prefill and decode, time to the
    first token of a miss and of a hit.

    --vs hf: `model.generate`; transformers_cb: `generate_batch`; vllm: of `make compare-vllm`. They
    take turns with ours, on the same weights.

    \b
    Examples:
      kvroute bench worker                                  minutes
      kvroute bench worker --vs hf,transformers_cb --rounds 3 --json
    """
    bench = import_extra("worker_svc.bench.worker", "worker")
    result = bench.bench_worker(
        names(vs), rounds=rounds, seed=seed, kernel=kernel, new_tokens=new_tokens, clock=clock
    )
    emit(result, as_json)
