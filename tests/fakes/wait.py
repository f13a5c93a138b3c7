"""Waiting for a condition, with a generous limit that only a hang reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LIVENESS_S = 30.0


async def until(condition: Callable[[], object], what: str, limit_s: float = LIVENESS_S) -> None:
    """Returns once `condition()` is true; fails the test, naming `what`, after `limit_s`."""
    try:
        async with asyncio.timeout(limit_s):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"did not happen within {limit_s:g} s: {what}") from None
