"""Server-sent events over an aiohttp response that begins with its first event.

Nothing is sent before there is something to say: an error before the first token keeps its HTTP
status. One event is one line `data: JSON` and an empty line; JSON escapes line breaks, and the text
in it never ends inside a character.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web

DONE = b"data: [DONE]\n\n"
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    # Proxies that buffer by default must not.
    "X-Accel-Buffering": "no",
}
_UNREAD = 16_384
"""Bytes that a client may leave unread without being timed; below the 64 KiB from which asyncio
makes writers wait.
"""


def event(data: bytes) -> bytes:
    """One event. `data` must be one line."""
    return b"data: " + data + b"\n\n"


class EventStream:
    """Events to one client. A client that does not read for `write_timeout_s` loses the stream, so
    that it cannot hold a request and its memory.
    """

    def __init__(
        self,
        request: web.Request,
        headers: Callable[[], Mapping[str, str]],
        write_timeout_s: float,
    ) -> None:
        """`headers`: asked for when the first event is there, for what is known only then."""
        self.begun = False
        self._request = request
        self._headers = headers
        self._timeout_s = write_timeout_s
        self._response = web.StreamResponse(headers=_HEADERS)
        self._begin_lock = asyncio.Lock()

    async def send(self, data: bytes) -> None:
        """Sends bytes of whole events.

        Raises:
            OSError: the client is gone, or read so slowly that it was cut off. Not an error of the
            tree: nobody is there to read one, and no other worker could do better.
        """
        if not self.begun:
            await self._begin()
        transport = self._request.transport
        if transport is not None and transport.get_write_buffer_size() + len(data) < _UNREAD:
            # The common case cannot wait, and a timer for each token costs more than the token.
            await self._response.write(data)
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._response.write(data)
        except TimeoutError:
            self._abort()
            raise ConnectionAbortedError(
                f"the client read nothing for {self._timeout_s:g} s"
            ) from None

    async def end(self) -> web.StreamResponse:
        """Closes the stream in an orderly way."""
        if not self.begun:
            await self._begin()
        await self._response.write_eof()
        return self._response

    async def _begin(self) -> None:
        # Several answers may have their first event in one turn of the loop.
        async with self._begin_lock:
            if not self.begun:
                self._response.headers.update(self._headers())
                await self._response.prepare(self._request)
                self.begun = True

    def _abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()
