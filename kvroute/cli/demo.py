"""`kvroute demo`."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvroute.cli.options import click_options, from_options
from kvroute.settings import setting

if TYPE_CHECKING:
    from rich.console import Console

    from kvroute.demo.outcome import Outcome
    from kvroute.demo.workload import DemoRequest
    from kvroute.local.cluster import Plan

BASELINE = "round_robin"
BETTER = "lbgr_plus"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    workers: int = setting(2, "workers to start", minimum=2, maximum=16)
    model: str = setting("demo", "model directory, hub name, or 'demo'")
    prefixes: int = setting(6, "long texts that requests share", minimum=1, maximum=10)
    questions: int = setting(4, "questions on each text", minimum=1, maximum=8)
    prefix_tokens: int = setting(2000, "tokens of each text", minimum=32)
    max_tokens: int = setting(8, "tokens to generate for each request", minimum=1)
    blocks: int = setting(1280, "KV blocks in each worker's cache", minimum=2)
    block_size: int = setting(16, "tokens in a block", minimum=1)
    threads: int = setting(0, "CPU threads of each worker; 0: all cores", minimum=0)
    seed: int = setting(1, "seed of the order of requests", minimum=0)
    redis_url: str = setting("", "Redis or Valkey to use; empty: an embedded Valkey")
    log_dir: Path = setting(Path("~/.local/state/kvroute/demo"), "where the parts write their logs")
    ready_timeout_s: float = setting(600.0, "seconds the fleet may take to get ready", minimum=1)


@click.command("demo")
@click_options(DemoSettings, "demo")
@click.pass_context
def command(ctx: click.Context, config: Path | None, **flags: object) -> None:
    """Shows on this machine that routing by cache pays, and checks it.

    Starts an embedded Valkey, a router and two workers with a real model (SmolLM2-135M-Instruct,
    4-bit weights expanded to float32; fetched and converted once). Sends the same requests, several
    questions on each of some 2,000-token texts, once under round_robin and once under lbgr_plus,
    one at a time, from empty caches.

    The last line is one JSON object. Exit code 0 only if no request failed, every cache hit was
    predicted within a block, a hit was at least 5 times faster than a miss to the first token, and
    lbgr_plus hit at least 1.3 times as often.

    \b
    Examples:
      kvroute demo                                about 3 minutes on 2 cores
      kvroute demo --model ./my-model --questions 6
    """
    from rich.console import Console

    settings = from_options(DemoSettings, "demo", config, flags)
    ctx.exit(0 if asyncio.run(demonstrate(settings, Console(stderr=True))) else 1)


async def demonstrate(settings: DemoSettings, console: Console) -> bool:
    """Runs the demo and prints its results; returns whether all checks held."""
    from rich.console import Console

    from kvroute.demo.checks import check_all
    from kvroute.demo.report import check_line, result_line, table
    from kvroute.demo.summary import summarize
    from kvroute.local.model import prepare_model
    from kvroute.local.preflight import require_redis

    if settings.redis_url:
        await require_redis(settings.redis_url)
    model = prepare_model(settings.model, console)
    requests = await asyncio.to_thread(make_requests, settings, model)
    runs = await run_all(settings, model, requests, console)
    summary = summarize(runs, settings.block_size)
    checks = check_all(summary, BASELINE, BETTER, settings.block_size)
    out = Console()
    out.print(table(summary))
    for check in checks:
        out.print(check_line(check), soft_wrap=True)
    click.echo(result_line(summary, facts(settings)))
    return all(check.ok for check in checks)


def make_requests(settings: DemoSettings, model: str) -> tuple[DemoRequest, ...]:
    """The requests in the tokens of the model. Takes seconds: it loads the tokenizer."""
    from kvroute.cli.extras import import_extra
    from kvroute.demo.corpus import QUESTIONS, TOPICS, documentation
    from kvroute.demo.workload import PLAIN, build, frame_from_template

    transformers = import_extra("transformers", "worker")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    def render(messages: list[dict[str, str]]) -> str:
        text: str = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return text

    frame = frame_from_template(render) if tokenizer.chat_template else PLAIN
    topics = [(name, documentation(name)) for name in TOPICS[: settings.prefixes]]
    questions = QUESTIONS[: settings.questions]
    return build(encode, frame, topics, questions, settings.prefix_tokens, settings.seed)


async def run_all(
    settings: DemoSettings, model: str, requests: Sequence[DemoRequest], console: Console
) -> dict[str, list[Outcome]]:
    """Starts the fleet, runs the requests under both policies, ends the fleet."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from kvroute.client import Client
    from kvroute.demo.measure import empty_caches, run_policy
    from kvroute.demo.report import outcome_line
    from kvroute.local.cluster import LocalCluster

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    say: Callable[[str], None] = lambda text: console.print(text, soft_wrap=True, highlight=False)  # noqa: E731
    runs: dict[str, list[Outcome]] = {}
    async with LocalCluster(make_plan(settings, model), say) as cluster:
        async with Client(cluster.address) as client:
            with Progress(*columns, console=console, transient=True) as progress:
                for policy in (BASELINE, BETTER):
                    say(f"{policy}: {len(requests)} requests, from empty caches")
                    await empty_caches(client)
                    task = progress.add_task(policy, total=len(requests))

                    def show(outcome: Outcome, task: object = task) -> None:
                        progress.console.print(
                            outcome_line(outcome, settings.block_size), soft_wrap=True
                        )
                        progress.advance(task)  # type: ignore[arg-type]

                    runs[policy] = await run_policy(
                        client, policy, requests, settings.max_tokens, show
                    )
    return runs


def make_plan(settings: DemoSettings, model: str) -> Plan:
    """Every worker gets all cores, since only one request runs at a time."""
    from kvroute.local.cluster import Plan

    threads = settings.threads or os.cpu_count() or 1
    sizes = ("--blocks", str(settings.blocks), "--block-size", str(settings.block_size))
    return Plan(
        model=model,
        served_name="demo",
        workers=settings.workers,
        listen="127.0.0.1:0",
        redis_url=settings.redis_url,
        folder=settings.log_dir.expanduser(),
        ready_timeout_s=settings.ready_timeout_s,
        worker_args=(*sizes, "--threads", str(threads)),
    )


def facts(settings: DemoSettings) -> dict[str, object]:
    """What the figures depend on."""
    from importlib.metadata import version

    from kvroute.settings import dump

    kept = ("workers", "model", "prefixes", "questions", "prefix_tokens", "max_tokens", "blocks")
    shown = dump(settings)
    return {
        "bench": "demo",
        "seed": settings.seed,
        "config": {name: shown[name] for name in kept},
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "torch": version("torch"),
        },
    }
