"""From a parsed call to the HTTP response, plain or streamed, for completions and chats alike."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Protocol

import structlog
from aiohttp import web

from kvroute.errors import KvrouteError
from router_svc.http.call import Call
from router_svc.http.errors import error_body
from router_svc.http.front import Front
from router_svc.http.headers import EXPLAIN_HEADER, explained
from router_svc.http.run import Choice, Piece, Whole, make_choices, run_choices
from router_svc.http.sse import DONE, EventStream, event
from router_svc.http.usage import UsageCounter


class Shape(Protocol):
    """How one endpoint writes its choices; one instance for each response."""

    id_prefix: str
    whole_object: str
    chunk_object: str

    def chunk(self, piece: Piece) -> dict[str, Any]:
        """The choice in a stream's event."""

    def quick(self, piece: Piece) -> str | None:
        """The same as JSON, for a piece that is nothing but more text; None for any other. Every
        token passes here.
        """

    def whole(self, whole: Whole) -> dict[str, Any]:
        """The choice in a plain answer."""


async def answer(
    request: web.Request, front: Front, call: Call, shape: Shape, request_id: str
) -> web.StreamResponse:
    """Serves `call`. A client that leaves cancels this task, and with it all that runs for it.

    Raises:
        KvrouteError: nothing was sent yet.
    """
    choices = make_choices(call.requests, call.n, request_id, front.backend)
    headers = _headers(request, choices[0])
    serve = _stream if call.stream.stream else _plain
    return await serve(request, front, call, shape, choices, headers)


class _Late:
    """Response headers that are known once the first part is there."""

    def __init__(self, wanted: bool, choice: Choice) -> None:
        self._wanted = wanted
        self._choice = choice

    def __call__(self) -> Mapping[str, str]:
        return explained(self._choice.record) if self._wanted else {}


def _headers(request: web.Request, first: Choice) -> _Late:
    wanted = request.headers.get(EXPLAIN_HEADER, "").lower() in ("1", "true", "yes")
    return _Late(wanted, first)


def _frame(shape: Shape, name: str, choices: list[Choice]) -> dict[str, Any]:
    """The fields that all events and answers begin with."""
    first = choices[0]
    return {
        "id": shape.id_prefix + first.record.request_id,
        "object": name,
        "created": int(time.time()),
        "model": first.record.model or first.request.model,
    }


async def _plain(
    request: web.Request,
    front: Front,
    call: Call,
    shape: Shape,
    choices: list[Choice],
    headers: _Late,
) -> web.StreamResponse:
    wholes = [Whole(choice) for choice in choices]
    usage = UsageCounter()

    async def take(piece: Piece) -> None:
        usage.add(piece)
        wholes[piece.index].take(piece)

    await run_choices(front.backend, choices, front.settings.request_timeout_s, take)
    body = _frame(shape, shape.whole_object, choices)
    body["choices"] = [shape.whole(whole) for whole in wholes]
    body["usage"] = usage.report()
    return web.Response(
        body=json.dumps(body, ensure_ascii=False).encode(),
        content_type="application/json",
        headers=headers(),
    )


async def _stream(
    request: web.Request,
    front: Front,
    call: Call,
    shape: Shape,
    choices: list[Choice],
    headers: _Late,
) -> web.StreamResponse:
    stream = EventStream(request, headers, front.settings.http_write_timeout_s)
    writer = _ChunkWriter(call, shape, choices)

    async def take(piece: Piece) -> None:
        await stream.send(writer.chunk(piece))

    try:
        await run_choices(front.backend, choices, front.settings.request_timeout_s, take)
        await stream.send(writer.last())
    except KvrouteError as error:
        if not stream.begun:
            raise
        # The status has gone out: what is left is to say it, and to leave out [DONE], so that
        # nobody takes a part for the whole.
        structlog.get_logger().warning(
            "stream broken", request=choices[0].record.request_id, reason=str(error)
        )
        await stream.send(event(error_body(error)))
    return await stream.end()


class _ChunkWriter:
    """Bytes of a stream's events. The part that all events share is rendered once."""

    def __init__(self, call: Call, shape: Shape, choices: list[Choice]) -> None:
        self._call = call
        self._shape = shape
        self._choices = choices
        self._usage = UsageCounter()
        self._head = b""
        # OpenAI: with include_usage every event but the last has a null usage.
        self._tail = b',"usage":null}\n\n' if call.stream.usage else b"}\n\n"

    def chunk(self, piece: Piece) -> bytes:
        """One event with one choice."""
        self._usage.add(piece)
        quick = self._shape.quick(piece)
        choice = _dump(self._shape.chunk(piece)) if quick is None else quick.encode()
        if self._call.stream.running_usage:
            tail = b',"usage":' + _dump(self._usage.report()) + b"}\n\n"
        else:
            tail = self._tail
        return self._start() + b'"choices":[' + choice + b"]" + tail

    def last(self) -> bytes:
        """The event with the usage, if asked for, and the end mark."""
        if not self._call.stream.usage:
            return DONE
        usage = _dump(self._usage.report())
        return self._start() + b'"choices":[],"usage":' + usage + b"}\n\n" + DONE

    def _start(self) -> bytes:
        if not self._head:
            frame = _dump(_frame(self._shape, self._shape.chunk_object, self._choices))
            self._head = b"data: " + frame[:-1] + b","
        return self._head


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _dump(value: Any) -> bytes:
    return _COMPACT.encode(value).encode()
