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
from router_svc.http.app import serving
from router_svc.http.backend import RouterBackend
from router_svc.http.front import Front
from router_svc.http.limits import KeyLimits
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
        async with http_front(settings, pipeline, fleets) as http:
            await health.set(True)
            write_ready_file(settings.ready_file, address, http)
            models = [fleet.served_name for fleet in fleets.all()]
            log.info("router ready", address=address, http=http, models=models)
            yield address
            await health.set(False)
    finally:
        await health.set(False)
        await server.stop(_DRAIN_S)
        await fleets.stop()
        log.info("router stopped")


@asynccontextmanager
async def http_front(
    settings: RouterSettings, pipeline: Pipeline, fleets: Fleets
) -> AsyncIterator[str]:
    """The OpenAI front while the context is open, if the settings want one; yields its address, or
    an empty text without one.
    """
    if not settings.http_listen:
        yield ""
        return
    front = Front(
        settings,
        RouterBackend(pipeline, fleets),
        new_id=lambda: secrets.token_hex(12),
        limits=KeyLimits(settings.http_max_per_key),
    )
    async with serving(front, settings.http_listen, _DRAIN_S) as address:
        yield address


async def serve(settings: RouterSettings) -> None:
    async with running(settings):
        await wait_for_signal()


def run(settings: RouterSettings) -> None:
    """Blocks until SIGINT or SIGTERM."""
    configure(settings.log_level, "router")
    asyncio.run(serve(settings))
