"""Routers find models, and forget those that nobody serves any more."""

from __future__ import annotations

import asyncio

from cache_index.registration import Registration
from kvroute.errors import NotFound, Unavailable
from router_svc.discovery import Fleets
from router_svc.settings import RouterSettings
from tests.fakes.fleet import MODEL, eventually, worker


def known(fleets: Fleets) -> list[str]:
    return [fleet.served_name for fleet in fleets.all()]


async def test_model_is_forgotten_a_while_after_its_last_worker_and_found_again(
    valkey: str,
) -> None:
    settings = RouterSettings(redis_url=valkey, lease_s=0.2, wait_s=0.05, audit_s=0.05)
    fleets = Fleets(settings, "r")
    first = Registration(valkey, worker=worker("a"), lease_s=0.2)
    again = Registration(valkey, worker=worker("b"), lease_s=0.2)
    await fleets.start()
    try:
        await first.start()
        await eventually(lambda: known(fleets) == [MODEL])
        await eventually(lambda: fleets.find(MODEL).follower.workers)
        await first.withdraw()
        await eventually(lambda: not known(fleets))
        try:
            fleets.find(MODEL)
        except (NotFound, Unavailable) as error:
            assert "registered" in str(error)
        await again.start()
        await eventually(lambda: known(fleets) == [MODEL])
    finally:
        await fleets.stop()
        await asyncio.gather(first.stop(), again.stop())


async def test_model_whose_worker_died_is_forgotten_too(valkey: str) -> None:
    settings = RouterSettings(redis_url=valkey, lease_s=0.2, wait_s=0.05, audit_s=0.05)
    fleets = Fleets(settings, "r")
    died = Registration(valkey, worker=worker("a"), lease_s=0.2)
    await died.start()
    await fleets.start()
    try:
        assert known(fleets) == [MODEL]
        await died.stop()  # Without a farewell: its lease runs out.
        await eventually(lambda: not known(fleets))
    finally:
        await fleets.stop()
