"""`kvroute worker` with the fake model: takes the same flags, so a local fleet can start it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from kvroute.cli import leash
from kvroute.cli.main import COMMANDS, Entry, main
from kvroute.cli.options import click_options, from_options
from kvroute.log import configure
from tests.fakes.worker_main import serve
from worker_svc.settings import WorkerSettings

PROGRAM = (sys.executable, "-m", "tests.fakes.worker_command")


@click.command("worker")
@click_options(WorkerSettings, "worker")
@click.option("--leash", "leashed", is_flag=True)
def command(config: Path | None, leashed: bool, **flags: object) -> None:
    settings = from_options(WorkerSettings, "worker", config, flags)
    if leashed:
        leash.hold()
    configure(settings.log_level, "worker")
    asyncio.run(serve(settings, {"ms_per_token": 0.05}))


if __name__ == "__main__":
    COMMANDS["worker"] = Entry("tests.fakes.worker_command", "A worker without a model.")
    main()
