"""A time-out that counts only while the event loop runs freely.

A loop that was stalled, or a process that got no CPU, finds the timer and the reply ready at once,
and the timer wins: a plain time-out would blame the server. Here the time is cut into ticks, and a
tick that comes late does not count.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

TICKS = 5
LATE_SHARE = 0.5
"""A tick later than this share of its length shows a stalled loop."""


class Patience:
    """`async with Patience(0.1):` raises TimeoutError after 5 punctual ticks of 20 ms."""

    def __init__(self, seconds: float) -> None:
        self._tick_s = seconds / TICKS
        self._left = TICKS
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._arm()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self._tick_s
        self._handle = loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._due <= LATE_SHARE * self._tick_s:
            self._left -= 1
        if self._left:
            self._arm()
        else:
            self._timeout.reschedule(now)
