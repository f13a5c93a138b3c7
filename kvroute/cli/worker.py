"""`kvroute worker`."""

from __future__ import annotations

from pathlib import Path

import click

from kvroute.cli import leash
from kvroute.cli.extras import import_extra
from kvroute.cli.options import click_options, from_options
from worker_svc.settings import WorkerSettings


@click.command("worker")
@click_options(WorkerSettings, "worker")
@click.option("--leash", "leashed", is_flag=True, hidden=True)
def command(config: Path | None, leashed: bool, **flags: object) -> None:
    """Runs a worker, one replica of a model, until SIGTERM or Ctrl-C.

    The model is a directory with a HuggingFace causal language model, or a hub name. The worker
    tells Redis what it caches and where it listens; routers find it there.

    \b
    Examples:
      kvroute worker --model ./SmolLM2-135M-Instruct --redis-url redis://127.0.0.1:6379
      kvroute worker --model Qwen/Qwen3-0.6B --served-name qwen --blocks 4000 --threads 8
      KVROUTE_WORKER_MODEL=./m kvroute worker --config kvroute.toml
    """
    settings = from_options(WorkerSettings, "worker", config, flags)
    if leashed:
        leash.hold()
    import_extra("worker_svc.main", "worker").run(settings)
