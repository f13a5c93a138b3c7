"""One router's stream at the worker: its requests, and what waits to be sent to it."""

from __future__ import annotations

import asyncio
import contextlib

from kvroute.v1 import worker_pb2

HEARTBEAT_S = 0.25


class RouterSession:
    """Collects what the engine's steps produce for one router; one frame takes everything that
    waits.

    A router that does not read costs bytes up to `max_bytes`; past that `overrun` is set and the
    session ends, so a dead router never stalls a step. All methods are for the event loop.
    """

    def __init__(self, router_id: str, max_bytes: int) -> None:
        self.router_id = router_id
        self.overrun = False
        self.streams: dict[int, int] = {}
        """Engine request ids of this session's open streams, by stream id."""
        self._frame = worker_pb2.SessionResponse()
        self._size = 0
        self._limit = max_bytes
        self._waiting = asyncio.Event()

    def push_chunk(self, chunk: worker_pb2.Chunk) -> None:
        if chunk.HasField("end"):
            self.streams.pop(chunk.stream_id, None)
        self._frame.chunks.append(chunk)
        self._grow(len(chunk.response) + 64)

    def push_tokenized(self, result: worker_pb2.Tokenized) -> None:
        self._frame.tokenized.append(result)
        self._grow(len(result.token_ids) + 64)

    def push_draining(self) -> None:
        self._frame.draining = True
        self._grow(1)

    def _grow(self, size: int) -> None:
        self._size += size
        self.overrun = self.overrun or self._size > self._limit
        self._waiting.set()

    async def next_frame(self) -> worker_pb2.SessionResponse:
        """Everything that waits, as soon as anything does; an empty frame after `HEARTBEAT_S`, so
        that a router can tell a long step from a frozen process.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_S):
                await self._waiting.wait()
        self._waiting.clear()
        frame, self._frame = self._frame, worker_pb2.SessionResponse()
        self._size = 0
        return frame
