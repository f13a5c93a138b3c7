"""Handlers that are not about models: health, readiness, the API's description, cache flush."""

from __future__ import annotations

import hmac
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from aiohttp import web

from router_svc.http.errors import Forbidden, Unauthorized
from router_svc.http.front import FRONT
from router_svc.http.headers import bearer

_FLUSH_TIMEOUT_S = 30.0


async def health(request: web.Request) -> web.Response:
    """The process lives; whether it can serve is `/ready`'s business."""
    return web.json_response({"status": "ok"})


async def ready(request: web.Request) -> web.Response:
    request.app[FRONT].check_ready()
    return web.json_response({"status": "ready"})


async def flush_cache(request: web.Request) -> web.Response:
    """Empties the caches of all workers, for whoever holds the admin token."""
    front = request.app[FRONT]
    check_admin(front.settings.http_admin_token, bearer(request.headers))
    flushed = await front.backend.flush_cache(_FLUSH_TIMEOUT_S)
    failed = any(one.error for one in flushed)
    return web.json_response(
        {"success": not failed, "workers": [asdict(one) for one in flushed]},
        status=503 if failed else 200,
    )


async def openapi(request: web.Request) -> web.Response:
    return web.Response(body=description(), content_type="application/json")


@cache
def description() -> bytes:
    """The OpenAPI document that ships with the package."""
    return files("router_svc.http").joinpath("openapi.json").read_bytes()


def check_admin(token: str, given: str) -> None:
    """Raises `Forbidden` when nobody may, `Unauthorized` when `given` is not the token."""
    if not token:
        raise Forbidden("this is only served with an admin token: set http_admin_token")
    if not hmac.compare_digest(token.encode(), given.encode("utf-8", "replace")):
        raise Unauthorized("the admin token is missing or wrong: send Authorization: Bearer TOKEN")
