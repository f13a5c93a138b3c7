"""Gives every request an id and every response the id's header, and turns errors into answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from kvroute.errors import KvrouteError
from router_svc.http.errors import (
    REQUEST_ID_HEADER,
    BadMethod,
    BadPath,
    TooLarge,
    error_answer,
)
from router_svc.http.front import FRONT
from router_svc.http.headers import request_id

REQUEST_ID = web.RequestKey("request_id", str)
"""Key of the id in a request's storage."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def boundary(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The outermost layer: nothing but answers and cancellation leaves it."""
    front = request.app[FRONT]
    try:
        request[REQUEST_ID] = request_id(request.headers, front.new_id)
        return await handler(request)
    except web.HTTPException as error:
        return _error(request, _known(request, error))
    except KvrouteError as error:
        return _error(request, error)
    except OSError as error:
        # The client has left: there is nobody to answer.
        log = structlog.get_logger()
        log.info("client left", request=request.get(REQUEST_ID), reason=str(error))
        raise
    except Exception as error:
        structlog.get_logger().exception("request failed", request=request.get(REQUEST_ID))
        return _error(request, KvrouteError(f"internal error: {type(error).__name__}"))


async def add_request_id(request: web.Request, response: web.StreamResponse) -> None:
    """A signal handler: runs as the headers of any response go out."""
    response.headers["Server"] = "kvroute"
    found = request.get(REQUEST_ID)
    if found:
        response.headers[REQUEST_ID_HEADER] = found


def _error(request: web.Request, error: KvrouteError) -> web.Response:
    answer = error_answer(error)
    structlog.get_logger().info(
        "request refused",
        request=request.get(REQUEST_ID),
        path=request.path[:80],
        status=answer.status,
        # What is wrong with a field may quote it, and fields hold prompts.
        reason=f"{error.field} is wrong" if answer.status == 400 else str(error)[:500],
    )
    return web.Response(
        status=answer.status,
        body=answer.body,
        content_type="application/json",
        headers=answer.headers,
    )


def _known(request: web.Request, error: web.HTTPException) -> KvrouteError:
    path = request.path[:80]
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        limit = request.app[FRONT].settings.max_prompt_bytes
        return TooLarge(f"the body is larger than {limit} bytes", field="body", limit=limit)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return BadMethod(f"{request.method} {path}: use {allowed}", field="method", limit=allowed)
    if error.status == 404:
        return BadPath(f"there is no {path} here; /openapi.json lists what there is", field="path")
    return KvrouteError(f"{error.status} {error.reason}")
