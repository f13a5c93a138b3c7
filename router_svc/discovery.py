"""Finds served models in Redis, keeps one fleet for each, and forgets those that are gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

import structlog
from redis.exceptions import RedisError

from cache_index.models import discover_models
from cache_index.redis_url import client_from_url, masked
from cache_index.tasks import end
from kvroute.errors import KvrouteError, NotFound, Unavailable
from router_svc.fleet import ModelFleet
from router_svc.settings import RouterSettings

_POLL_S = 0.25
_MAX_MODELS = 256
_LINGER_LEASES = 3.0
"""A model that nobody serves is forgotten after this long: its workers may only be restarting."""


class Fleets:
    """All models this router serves; `start` returns with all views loaded."""

    def __init__(self, settings: RouterSettings, router_id: str) -> None:
        self._settings = settings
        self._router_id = router_id
        self._fleets: dict[str, ModelFleet] = {}
        self._empty_since: dict[str, float] = {}
        self._forgetting: set[asyncio.Task[None]] = set()
        self._linger_s = max(_LINGER_LEASES * settings.lease_s, 2 * settings.wait_s)
        self._client = client_from_url(settings.redis_url)
        self._task: asyncio.Task[None] | None = None
        self._log = structlog.get_logger()

    async def start(self) -> None:
        """Discovers once, loads the views, then keeps discovering.

        Raises:
            Unavailable: Redis cannot be reached.
        """
        try:
            await self._discover()
        except (RedisError, OSError) as error:
            raise Unavailable(
                f"cannot reach Redis at {masked(self._settings.redis_url)}: {error}; "
                "start one or give --redis-url"
            ) from None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.wait_s):
                await asyncio.gather(*(fleet.wait_settled() for fleet in self._fleets.values()))
        self._task = asyncio.create_task(self._keep_discovering(), name="discovery")

    async def stop(self) -> None:
        await end(self._task)
        await asyncio.gather(*(fleet.stop() for fleet in self._fleets.values()), *self._forgetting)
        await self._client.aclose()

    def all(self) -> list[ModelFleet]:
        return [self._fleets[name] for name in sorted(self._fleets)]

    def find(self, model: str) -> ModelFleet:
        """The fleet of a served model; of the only one when `model` is empty.

        Raises:
            NotFound: naming the models there are.
            Unavailable: no model is served yet.
        """
        if not self._fleets:
            raise Unavailable(
                "no worker has registered yet; start one with: kvroute worker", retry_after_ms=1000
            )
        names = ", ".join(sorted(self._fleets))
        if not model and len(self._fleets) == 1:
            return next(iter(self._fleets.values()))
        if model not in self._fleets:
            what = f"model {model[:80]!r} is not served" if model else "model is empty"
            raise NotFound(f"{what}; served: {names}", field="model", value=model, limit=names)
        return self._fleets[model]

    async def _discover(self) -> None:
        listed = await discover_models(self._client)
        for name in listed:
            if name not in self._fleets and len(self._fleets) < _MAX_MODELS:
                fleet = ModelFleet(name, self._settings, self._router_id)
                try:
                    await fleet.start()
                except BaseException:
                    await fleet.stop()
                    raise
                self._fleets[name] = fleet
        for name in self._abandoned(listed, asyncio.get_running_loop().time()):
            self._log.info("model forgotten", model=name)
            # Not awaited here: `stop` may cancel us, and this must get to its end all the same.
            task = asyncio.create_task(self._fleets.pop(name).stop(), name=f"forget-{name}")
            self._forgetting.add(task)
            task.add_done_callback(self._forgetting.discard)

    def _abandoned(self, listed: Collection[str], now: float) -> list[str]:
        """Models that Redis does not name and that had no worker and no request for a while."""
        empty = {
            name
            for name, fleet in self._fleets.items()
            if name not in listed and not fleet.follower.workers and not fleet.ledger.open_bookings
        }
        self._empty_since = {name: self._empty_since.get(name, now) for name in empty}
        return [name for name in empty if now - self._empty_since[name] >= self._linger_s]

    async def _keep_discovering(self) -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            try:
                await self._discover()
            except (RedisError, OSError, KvrouteError) as error:
                self._log.debug("discovery failed", reason=str(error))
