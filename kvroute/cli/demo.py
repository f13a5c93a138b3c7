"""`kvroute demo`."""

from __future__ import annotations

from pathlib import Path

import click

from kvroute.cli.options import click_options, from_options
from kvroute.demo.settings import DemoSettings


@click.command("demo")
@click_options(DemoSettings, "demo")
def command(config: Path | None, **flags: object) -> None:
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

    from kvroute.demo.run import demonstrate

    settings = from_options(DemoSettings, "demo", config, flags)
    held = demonstrate(settings, Console(stderr=True))
    click.get_current_context().exit(0 if held else 1)
