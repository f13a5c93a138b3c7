"""`kvroute up`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvroute.cli.options import click_options, from_options
from kvroute.settings import setting

if TYPE_CHECKING:
    from rich.console import Console

    from kvroute.local.cluster import LocalCluster, Plan

REFRESH_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    workers: int = setting(2, "workers to start", minimum=1, maximum=64)
    model: str = setting("demo", "model directory, hub name, or 'demo'")
    served_name: str = setting("", "name clients ask for; empty: the model's own")
    listen: str = setting("127.0.0.1:50050", "address of the router (HOST:PORT; port 0 takes any)")
    redis_url: str = setting("", "Redis or Valkey to use; empty: an embedded Valkey")
    policy: str = setting("", "routing policy; empty: the router's default")
    blocks: int | None = setting(None, "KV blocks in each worker's cache", minimum=2)
    block_size: int | None = setting(None, "tokens in a block", minimum=1)
    threads: int = setting(0, "CPU threads of each worker; 0: the cores, shared out", minimum=0)
    log_dir: Path = setting(Path("~/.local/state/kvroute/up"), "where the parts write their logs")
    ready_timeout_s: float = setting(600.0, "seconds the fleet may take to get ready", minimum=1)


@click.command("up")
@click_options(UpSettings, "up")
def command(config: Path | None, **flags: object) -> None:
    """Starts a control plane, workers and a router on this machine, and shows them live.

    Ctrl-C ends all in order: the router finishes what it has, then the workers, then the embedded
    Valkey. The parts read their own settings too (KVROUTE_WORKER_*, KVROUTE_ROUTER_*, the tables
    [worker] and [router] of the settings file).

    \b
    Examples:
      kvroute up                                  the demo model, two workers
      kvroute up --model ./my-model --workers 4
      kvroute up --redis-url redis://127.0.0.1:6379 --listen 127.0.0.1:0
    """
    from rich.console import Console

    from kvroute.local.model import prepare_model
    from kvroute.local.preflight import require_free_port, require_redis

    settings = from_options(UpSettings, "up", config, flags)
    console = Console(stderr=True)
    require_free_port(settings.listen)
    if settings.redis_url:
        asyncio.run(require_redis(settings.redis_url))
    plan = make_plan(settings, prepare_model(settings.model, console), config)
    # Ctrl-C is how it is meant to end, so that is a success.
    with _terminate_like_interrupt(), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(plan, console))


async def serve(plan: Plan, console: Console) -> None:
    """Runs until cancelled. Raises StartError when a part does not start or all have ended."""
    from kvroute.local.cluster import LocalCluster

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    async with LocalCluster(plan, say) as cluster:
        try:
            await watch(cluster, console)
        finally:
            say("ending: router, workers, control plane")


def make_plan(settings: UpSettings, model: str, config: Path | None) -> Plan:
    """What to start. `model` is what `prepare_model` made of the setting."""
    from kvroute.local.cluster import Plan

    shared = () if config is None else ("--config", str(config))
    threads = settings.threads or max(1, (os.cpu_count() or 1) // settings.workers)
    blocks = () if settings.blocks is None else ("--blocks", str(settings.blocks))
    size = () if settings.block_size is None else ("--block-size", str(settings.block_size))
    return Plan(
        model=model,
        served_name=settings.served_name or ("demo" if settings.model == "demo" else ""),
        workers=settings.workers,
        listen=settings.listen,
        redis_url=settings.redis_url,
        folder=settings.log_dir.expanduser(),
        ready_timeout_s=settings.ready_timeout_s,
        worker_args=(*shared, *blocks, *size, "--threads", str(threads)),
        router_args=(*shared, *(("--policy", settings.policy) if settings.policy else ())),
    )


async def watch(cluster: LocalCluster, console: Console) -> None:
    """Shows the fleet until it can no longer serve, then raises StartError with the reason."""
    from kvroute.errors import StartError

    console.print(
        f"router ready on {cluster.address}, logs in {cluster.plan.folder}", soft_wrap=True
    )
    at = "" if cluster.address == "127.0.0.1:50050" else f" --address {cluster.address}"
    console.print(f"try: kvroute chat{at}   (Ctrl-C here ends everything)", soft_wrap=True)
    failure = asyncio.create_task(cluster.failed())
    showing = asyncio.create_task(_show(cluster.address, console))
    try:
        await asyncio.wait({failure, showing}, return_when=asyncio.FIRST_COMPLETED)
        if showing.done() and not failure.done():
            showing.result()
        raise StartError(await failure)
    finally:
        failure.cancel()
        showing.cancel()
        await asyncio.gather(failure, showing, return_exceptions=True)


async def _show(address: str, console: Console) -> None:
    """A live table on a terminal; elsewhere nothing more is printed."""
    from rich.live import Live

    from kvroute.cli.table import cluster_table
    from kvroute.client import Client
    from kvroute.errors import KvrouteError

    if not console.is_terminal:
        await asyncio.Event().wait()
    async with Client(address) as client:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                with contextlib.suppress(KvrouteError):
                    live.update(cluster_table(await client.cluster_state()), refresh=True)
                await asyncio.sleep(REFRESH_S)


@contextlib.contextmanager
def _terminate_like_interrupt() -> Iterator[None]:
    """SIGTERM ends us as Ctrl-C does: in order, and without a traceback."""

    def interrupt(number: int, frame: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
