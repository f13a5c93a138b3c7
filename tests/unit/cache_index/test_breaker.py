from __future__ import annotations

import asyncio
import time

import pytest

from cache_index.breaker import Breaker
from cache_index.patience import Patience


def test_pause_doubles_up_to_a_second_and_heals() -> None:
    breaker, now = Breaker(), 100.0
    for pause in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        breaker.tripped(now)
        assert breaker.is_open(now + pause - 0.001)
        assert not breaker.is_open(now + pause + 0.001)
    breaker.healed()
    assert not breaker.is_open(now)
    breaker.tripped(now)
    assert not breaker.is_open(now + 0.11)
    assert breaker.trips == 7


async def test_silence_ends_in_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with Patience(0.02):
            await asyncio.Event().wait()


async def test_stalled_loop_is_not_the_servers_fault() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.06, event.set)
    async with Patience(0.05):
        time.sleep(0.2)  # noqa: ASYNC251 (the stall is the point)
        await event.wait()


async def test_outer_cancellation_is_not_turned_into_a_timeout() -> None:
    async def wait() -> None:
        async with Patience(5.0):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
