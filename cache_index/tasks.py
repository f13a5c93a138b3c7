"""Ending a background task for certain."""

from __future__ import annotations

import asyncio
from typing import Any

_AGAIN_S = 0.05


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancels a task and waits for its end; its own error, if any, is raised.

    Repeats the cancellation: a client library below may swallow one, when it comes together with
    the result that it was waiting for.
    """
    if task is None:
        return
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_AGAIN_S)
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
