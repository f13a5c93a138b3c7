"""Handlers of `/v1/models`."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from cache_index.identity import ModelIdentity
from kvroute.errors import NotFound
from router_svc.http.front import FRONT, Front


async def list_models(request: web.Request) -> web.Response:
    front = request.app[FRONT]
    data = [_model(front, identity) for identity in front.backend.models()]
    return web.json_response({"object": "list", "data": data})


async def get_model(request: web.Request) -> web.Response:
    """Names may hold slashes, as those of the hub do."""
    front = request.app[FRONT]
    name = request.match_info["model"]
    for identity in front.backend.models():
        if identity.served_name == name:
            return web.json_response(_model(front, identity))
    raise NotFound(f"model {name[:80]!r} is not served", field="model", value=name)


def _model(front: Front, identity: ModelIdentity) -> dict[str, Any]:
    return {
        "id": identity.served_name,
        "object": "model",
        "created": front.started,
        "owned_by": "kvroute",
        "root": identity.model_id,
        "parent": None,
        "max_model_len": identity.max_context,
    }
