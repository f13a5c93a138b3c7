"""One request's side of a worker stream: parts wait here, joined, until the client takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kvroute.errors import KvrouteError, Overloaded
from kvroute.v1 import worker_pb2


class SlowReader(Overloaded):
    """The client's own doing: another worker would not be read any faster."""


@dataclass(frozen=True, slots=True)
class Part:
    """What has come since the last call: serialized `GenerateResponse` bytes, and the end if this
    is the last part.
    """

    response: bytes
    end: worker_pb2.End | None


class RemoteStream:
    """Filled by a link's reader, emptied by the request's task.

    Joined serialized parts are one valid part (see `GenerateResponse`), so a slow client costs
    bytes, not messages, and never holds up the frames of others. Bytes are bounded: past
    `max_buffer_bytes` the stream fails.
    """

    def __init__(self, max_buffer_bytes: int, on_first: Callable[[], None]) -> None:
        self.admission: worker_pb2.Admission | None = None
        self.end: worker_pb2.End | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._limit = max_buffer_bytes
        self._failure: KvrouteError | None = None
        self._on_first = on_first
        self._started = False
        self._changed = asyncio.Event()

    def feed(self, chunk: worker_pb2.Chunk) -> None:
        """Takes one chunk. Never blocks; calls `on_first` at the first bytes for the client."""
        if self._failure is not None:
            return
        if chunk.HasField("admission"):
            self.admission = chunk.admission
        if chunk.response:
            if not self._started:
                self._started = True
                self._on_first()
            self._parts.append(chunk.response)
            self._size += len(chunk.response)
            if self._size > self._limit:
                self.fail(
                    SlowReader(
                        f"the client left {self._size} bytes unread; the limit is {self._limit}",
                        field="max_buffer_bytes",
                        value=self._size,
                        limit=self._limit,
                    )
                )
        if chunk.HasField("end"):
            self.end = chunk.end
        self._changed.set()

    def fail(self, error: KvrouteError) -> None:
        """The stream is broken; what came before it may still be read. The first failure counts."""
        self._failure = self._failure or error
        self._changed.set()

    async def next(self) -> Part:
        """Everything since the last call, as soon as there is anything.

        Raises:
            KvrouteError: the stream broke before its end.
        """
        while not self._parts and self.end is None and self._failure is None:
            self._changed.clear()
            await self._changed.wait()
        if self._parts or self.end is not None:
            joined = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            return Part(joined, self.end)
        assert self._failure is not None
        raise self._failure
