"""Handlers of `/v1/completions` and `/v1/chat/completions`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from kvroute.v1 import router_pb2
from router_svc.http.answer import Shape, answer
from router_svc.http.base import Backend
from router_svc.http.call import POLICY_HEADER, Call, Context
from router_svc.http.chat import ChatShape, parse_chat
from router_svc.http.completions import CompletionShape, parse_completion
from router_svc.http.front import FRONT, Front, read_object
from router_svc.http.headers import bearer, trace
from router_svc.http.hints import SESSION_HEADER
from router_svc.http.request_id import REQUEST_ID
from router_svc.http.tool_text import PARSERS

Parse = Callable[[dict[str, Any], Context], Call]
NewShape = Callable[[Call, Front], Shape]


async def completions(request: web.Request) -> web.StreamResponse:
    return await _generate(request, parse_completion, lambda call, front: CompletionShape(call))


async def chat_completions(request: web.Request) -> web.StreamResponse:
    return await _generate(request, parse_chat, _chat_shape)


def _chat_shape(call: Call, front: Front) -> Shape:
    parser = PARSERS.get(front.settings.http_tool_parser)
    return ChatShape(call, parser, lambda: f"call_{front.new_id()}")


async def _generate(request: web.Request, parse: Parse, new_shape: NewShape) -> web.StreamResponse:
    front = request.app[FRONT]
    with front.limits.hold(bearer(request.headers)):
        values = await read_object(request)
        call = parse(values, _context(request, front))
        front.note_ignored(call.ignored)
        traced = trace(request.headers)
        for one in call.requests:
            if traced is not None:
                one.trace.CopyFrom(traced)
        if call.prefixes:
            await add_breakpoints(call, front.backend, front.settings.request_timeout_s)
        return await answer(request, front, call, new_shape(call, front), request[REQUEST_ID])


def _context(request: web.Request, front: Front) -> Context:
    settings = front.settings
    return Context(
        session_id=request.headers.get(SESSION_HEADER, ""),
        policy=request.headers.get(POLICY_HEADER, ""),
        allow_cache_salt=settings.http_allow_cache_salt,
        max_choices=settings.http_max_choices,
        max_messages=settings.http_max_messages,
    )


async def add_breakpoints(call: Call, backend: Backend, timeout_s: float) -> None:
    """Writes the lengths, in tokens, of the chat's marked beginnings into its hints.

    A beginning is templated and tokenized by itself; what it shares with the whole prompt is the
    length: templates may write the end of a conversation differently.
    """
    request = call.requests[0]
    parts = [request]
    for prefix in call.prefixes:
        parts.append(router_pb2.GenerateRequest(model=request.model, chat=prefix))
    found = await asyncio.gather(*(backend.tokenize(part, timeout_s) for part in parts))
    whole = found[0].token_ids
    lengths = {shared_tokens(whole, part.token_ids) for part in found[1:]}
    request.hints.breakpoints.extend(sorted(lengths - {0}))


def shared_tokens(left: bytes, right: bytes) -> int:
    """Tokens that two prompts begin with alike, both as little-endian uint32."""
    low, high = 0, min(len(left), len(right)) // 4
    while low < high:
        middle = (low + high + 1) // 2
        if left[: middle * 4] == right[: middle * 4]:
            low = middle
        else:
            high = middle - 1
    return low
