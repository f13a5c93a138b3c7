"""Settings of the commands that look into the control plane, and what they have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kvroute.cli.extras import import_extra
from kvroute.settings import setting

T = TypeVar("T")
Ask = Callable[[Any, str], Awaitable[T]]
"""Given a Redis client and the served name of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    redis_url: str = setting(
        "redis://127.0.0.1:6379", "Redis or Valkey: redis://, rediss:// or unix:// URL"
    )
    model: str = setting("", "served name of a model; empty: all of them")


def each_model(settings: ControlSettings, ask: Ask[T]) -> list[T]:
    """Asks for the model that the settings name, or for every one there is, by name.

    Raises NotFound for a model that nobody serves, StartError or Unavailable when Redis cannot
    be used.
    """
    return asyncio.run(_each_model(settings, ask))


async def _each_model(settings: ControlSettings, ask: Ask[T]) -> list[T]:
    commands = import_extra("cache_index.commands", "router")
    models = import_extra("cache_index.models", "router")
    redis_url = import_extra("cache_index.redis_url", "router")
    from kvroute.errors import NotFound, Unavailable

    client = redis_url.client_from_url(settings.redis_url)
    try:
        await redis_url.check_server(client, settings.redis_url)
        names = sorted(await models.discover_models(client))
        if settings.model and settings.model not in names:
            served = ", ".join(names) or "none"
            raise NotFound(f"model {settings.model!r} is not served; served: {served}")
        return [await ask(client, name) for name in ([settings.model] if settings.model else names)]
    except commands.FAILURES as error:
        at = redis_url.masked(settings.redis_url)
        raise Unavailable(f"Redis at {at} does not answer as it should: {error}") from error
    finally:
        await commands.close(client)
