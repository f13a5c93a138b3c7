"""The aiohttp application: its routes, and its life as a server."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from kvroute.errors import StartError
from router_svc.http import admin, generate, models, tokenize
from router_svc.http.errors import BadPath
from router_svc.http.front import FRONT, Front
from router_svc.http.request_id import add_request_id, boundary

_KEEPALIVE_S = 75.0
_BACKLOG = 4096


def make_app(front: Front) -> web.Application:
    """All routes around one front."""
    app = web.Application(
        middlewares=[web.middleware(boundary)], client_max_size=front.settings.max_prompt_bytes
    )
    app[FRONT] = front
    app.on_response_prepare.append(add_request_id)
    app.add_routes(
        [
            web.post("/v1/completions", generate.completions),
            web.post("/v1/chat/completions", generate.chat_completions),
            web.get("/v1/models", models.list_models),
            web.get("/v1/models/{model:.+}", models.get_model),
            web.post("/v1/embeddings", embeddings),
            web.post("/tokenize", tokenize.tokenize),
            web.post("/detokenize", tokenize.detokenize),
            web.get("/health", admin.health),
            web.get("/ready", admin.ready),
            web.get("/openapi.json", admin.openapi),
            web.post("/flush_cache", admin.flush_cache),
        ]
    )
    return app


async def embeddings(request: web.Request) -> web.StreamResponse:
    """Known, so that clients hear why and not only that."""
    raise BadPath("no worker here makes embeddings", field="path")


@asynccontextmanager
async def serving(front: Front, listen: str, drain_s: float) -> AsyncIterator[str]:
    """Serves while the context is open; yields HOST:PORT with the port that was taken.

    On the way out `/ready` says no at once, the listener closes, and open requests get `drain_s`.

    Raises:
        StartError: the address is malformed or in use.
    """
    # Broken HTTP is its sender's fault and no error of ours; the boundary logs what is.
    quiet = logging.getLogger("router_svc.http.protocol")
    quiet.setLevel(logging.CRITICAL)
    runner = web.AppRunner(
        make_app(front),
        access_log=None,
        logger=quiet,
        # The client's leaving ends the work for it, also while its prompt is computed.
        handler_cancellation=True,
        keepalive_timeout=_KEEPALIVE_S,
        shutdown_timeout=drain_s,
        max_line_size=front.settings.http_max_header_bytes,
        max_field_size=front.settings.http_max_header_bytes,
    )
    await runner.setup()
    try:
        listener = _listener(listen)
        site = web.SockSite(runner, listener, backlog=_BACKLOG)
        await site.start()
        host, port = listener.getsockname()[:2]
        yield f"{listen.rpartition(':')[0] or host}:{port}"
    finally:
        front.draining = True
        await runner.cleanup()


def _listener(listen: str) -> socket.socket:
    host, separator, port = listen.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise StartError(f"cannot serve HTTP on {listen!r}: give HOST:PORT, as in 127.0.0.1:8000")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=family)
    except (OSError, OverflowError) as error:
        raise StartError(
            f"cannot serve HTTP on {listen}: {error}; choose another with --http-listen HOST:PORT"
        ) from None
