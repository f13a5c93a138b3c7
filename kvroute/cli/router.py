"""`kvroute router`."""

from __future__ import annotations

from pathlib import Path

import click

from kvroute.cli import leash
from kvroute.cli.extras import import_extra
from kvroute.cli.options import click_options, from_options
from router_svc.settings import RouterSettings


@click.command("router")
@click_options(RouterSettings, "router")
@click.option("--leash", "leashed", is_flag=True, hidden=True)
def command(config: Path | None, leashed: bool, **flags: object) -> None:
    """Runs a router until SIGTERM or Ctrl-C.

    Routers hold nothing that matters: start as many as you like against one Redis, and kill any.

    \b
    Examples:
      kvroute router --redis-url redis://127.0.0.1:6379
      kvroute router --redis-url redis://redis:6379 --listen 0.0.0.0:50050 --policy lbgr_plus
      KVROUTE_ROUTER_LEASE_S=1 kvroute router --config kvroute.toml
    """
    settings = from_options(RouterSettings, "router", config, flags)
    if leashed:
        leash.hold()
    import_extra("router_svc.main", "router").run(settings)
