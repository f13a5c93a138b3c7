"""Builds the router out of its parts and runs it until a signal."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import structlog

from kvroute.log import configure
from kvroute.server import Health, bind, make_server, wait_for_signal, write_ready_file
from router_svc.discovery import Fleets
from router_svc.edge import SERVICE, RouterEdge
from router_svc.pipeline import Pipeline
from router_svc.settings import RouterSettings

_DRAIN_S = 10.0


@asynccontextmanager
async def running(settings: RouterSettings) -> AsyncIterator[str]:
    """A router that serves while the context is open; yields its address.

    It listens at once, but reports SERVING only with the views of all models loaded: the first
    decision is made on a full view. On the way out it stops being ready, lets running requests
    finish for a while, then closes its ledger session.

    Raises:
        StartError: the address cannot be bound.
        Unavailable: Redis cannot be reached.
    """
    router_id = settings.router_id or f"r{secrets.token_hex(4)}"
    log = structlog.get_logger().bind(router=router_id)
    fleets = Fleets(settings, router_id)
    rng = Random(settings.seed or secrets.randbits(64))
    pipeline = Pipeline(settings, router_id, fleets, rng)
    server = make_server(settings.max_prompt_bytes)
    health = Health(server, SERVICE)
    server.add_generic_rpc_handlers((RouterEdge(settings, pipeline, fleets).handler(),))
    await health.set(False)
    address = bind(server, settings.listen)
    try:
        await fleets.start()
        await server.start()
        await health.set(True)
        write_ready_file(settings.ready_file, address)
        log.info(
            "router ready", address=address, models=[fleet.served_name for fleet in fleets.all()]
        )
        yield address
    finally:
        await health.set(False)
        await server.stop(_DRAIN_S)
        await fleets.stop()
        log.info("router stopped")


async def serve(settings: RouterSettings) -> None:
    async with running(settings):
        await wait_for_signal()


def run(settings: RouterSettings) -> None:
    """Blocks until SIGINT or SIGTERM."""
    configure(settings.log_level, "router")
    asyncio.run(serve(settings))
