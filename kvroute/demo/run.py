"""The whole demo: a fleet, the requests under two policies, the results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kvroute.bench.common import common
from kvroute.cli.extras import import_extra
from kvroute.client import Client
from kvroute.demo.checks import check_all
from kvroute.demo.corpus import QUESTIONS, TOPICS, documentation
from kvroute.demo.measure import empty_caches, run_policy
from kvroute.demo.outcome import Outcome
from kvroute.demo.report import check_line, outcome_line, result_line, table
from kvroute.demo.settings import DemoSettings
from kvroute.demo.summary import summarize
from kvroute.demo.workload import PLAIN, DemoRequest, build, frame_from_template
from kvroute.local.cluster import LocalCluster, Plan
from kvroute.local.model import prepare_model
from kvroute.local.preflight import require_redis
from kvroute.settings import dump

BASELINE = "round_robin"
BETTER = "lbgr_plus"


def demonstrate(settings: DemoSettings, console: Console) -> bool:
    """Runs the demo; progress goes to `console`, results to standard output. Returns whether all
    checks held. Raises StartError when the fleet does not come up.
    """
    if settings.redis_url:
        asyncio.run(require_redis(settings.redis_url))
    model = prepare_model(settings.model, console)
    requests = make_requests(settings, model)
    runs = asyncio.run(run_all(settings, model, requests, console))
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

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    runs: dict[str, list[Outcome]] = {}
    cluster = LocalCluster(make_plan(settings, model), say)
    async with cluster, Client(cluster.address) as client:
        for policy in (BASELINE, BETTER):
            say(f"{policy}: {len(requests)} requests, from empty caches")
            await empty_caches(client)
            runs[policy] = await _run_one(client, policy, requests, settings, console)
        say("ending the fleet")
    return runs


async def _run_one(
    client: Client,
    policy: str,
    requests: Sequence[DemoRequest],
    settings: DemoSettings,
    console: Console,
) -> list[Outcome]:
    with _progress(console) as progress:
        task = progress.add_task(policy, total=len(requests))

        def show(outcome: Outcome) -> None:
            progress.console.print(outcome_line(outcome, settings.block_size), soft_wrap=True)
            progress.advance(task)

        return await run_policy(client, policy, requests, settings.max_tokens, show)


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def make_plan(settings: DemoSettings, model: str) -> Plan:
    """Every worker gets all cores, since only one request runs at a time."""
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
    kept = ("workers", "model", "prefixes", "questions", "prefix_tokens", "max_tokens", "blocks")
    shown = dump(settings)
    return common("demo", {name: shown[name] for name in kept}, settings.seed)
