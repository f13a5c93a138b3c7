"""What all handlers share, and how a body is read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import web

from kvroute.errors import InvalidArgument, Unavailable
from router_svc.http.base import Backend
from router_svc.http.body import parse_object
from router_svc.http.errors import SlowBody
from router_svc.http.limits import KeyLimits
from router_svc.settings import RouterSettings

_BODY_TIMEOUT_S = 30.0
_MAX_IGNORED = 256


@dataclass(slots=True)
class Front:
    """The parts behind the handlers."""

    settings: RouterSettings
    backend: Backend
    new_id: Callable[[], str]
    """Ids of requests and tool calls: 24 hex digits, unique."""
    limits: KeyLimits
    draining: bool = False
    started: int = field(default_factory=lambda: int(time.time()))
    _ignored: set[str] = field(default_factory=set)

    def check_ready(self) -> None:
        """Raises `Unavailable` while requests should go to another router."""
        if self.draining:
            raise Unavailable("this router is shutting down", retry_after_ms=1000)
        self.backend.check_ready()

    def note_ignored(self, names: Sequence[str]) -> None:
        """Logs fields that mean nothing here, each name once, as many as fit."""
        for name in names:
            if name not in self._ignored and len(self._ignored) < _MAX_IGNORED:
                self._ignored.add(name)
                structlog.get_logger().info("unknown field ignored", field=name[:80])


FRONT = web.AppKey("front", Front)


async def read_object(request: web.Request) -> dict[str, Any]:
    """The JSON object of the body.

    Raises:
        InvalidArgument: it is no such thing. SlowBody: it did not come in time. aiohttp raises
        HTTPRequestEntityTooLarge for one that is too large.
    """
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            data = await request.read()
    except TimeoutError:
        raise SlowBody(f"the body did not arrive within {_BODY_TIMEOUT_S:g} s") from None
    except web.RequestPayloadError as error:
        reason = " ".join(str(error).split())
        raise InvalidArgument(f"the body cannot be read: {reason}", field="body") from None
    return parse_object(data)
