"""The worker's gRPC service: router sessions in, engine outputs out."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc
import structlog

from cache_index.identity import ModelIdentity
from kvroute.errors import ERROR_KEY, KvrouteError, Mismatch, Unsupported
from kvroute.tokens import pack_tokens, unpack_tokens
from kvroute.v1 import router_pb2, worker_pb2, worker_pb2_grpc
from worker_svc.hub import Hub
from worker_svc.session import RouterSession
from worker_svc.text.tokenizer import TextService

SERVICE = "kvroute.v1.Worker"
PROTOCOL_VERSION = 1
_MAX_TOKENIZING = 64

Context = Any
"""A `grpc.aio.ServicerContext`; grpcio brings no types."""


class WorkerEdge(worker_pb2_grpc.WorkerServicer):  # type: ignore[misc]  # generated, untyped
    """Handlers of `kvroute.v1.Worker`."""

    def __init__(
        self,
        hub: Hub,
        text: TextService,
        worker_id: str,
        epoch: Callable[[], int],
        drain: Callable[[float], Awaitable[int]],
        max_session_bytes: int,
    ) -> None:
        self._hub = hub
        self._text = text
        self._worker_id = worker_id
        self._epoch = epoch
        self._drain = drain
        self._max_session_bytes = max_session_bytes
        self._sessions: set[RouterSession] = set()
        self._tokenizing = asyncio.Semaphore(_MAX_TOKENIZING)
        self._log = structlog.get_logger()

    def announce_draining(self) -> None:
        """Tells every connected router that new requests belong elsewhere."""
        for session in self._sessions:
            session.push_draining()

    async def Session(self, request_iterator: Any, context: Context) -> None:  # noqa: N802
        first = await context.read()
        if first is grpc.aio.EOF or not first.HasField("hello"):
            await _abort(context, Mismatch("the first frame of a session must be a hello"))
        wrong = self._hello_error(first.hello)
        if wrong is not None:
            self._log.error("router refused", router=first.hello.router_id, reason=str(wrong))
            await _abort(context, wrong)
        session = RouterSession(first.hello.router_id, self._max_session_bytes)
        await context.write(self._hello_reply())
        if self._hub.draining:
            session.push_draining()
        self._sessions.add(session)
        self._log.info("router connected", router=session.router_id)
        try:
            await self._run(session, context)
        finally:
            # Whatever ended the session, nobody waits for its requests any more.
            self._sessions.discard(session)
            self._hub.leave(session)
            self._log.info("router left", router=session.router_id)

    async def _run(self, session: RouterSession, context: Context) -> None:
        writer = asyncio.create_task(self._write(session, context))
        tokenizing: set[asyncio.Task[None]] = set()
        try:
            while not writer.done():
                frame = await context.read()
                if frame is grpc.aio.EOF:
                    break
                for submit in frame.submits:
                    self._hub.submit(session, submit)
                for cancel in frame.cancels:
                    self._hub.cancel(session, cancel.stream_id)
                for ask in frame.tokenizes:
                    task = asyncio.create_task(self._tokenize(session, ask))
                    tokenizing.add(task)
                    task.add_done_callback(tokenizing.discard)
        finally:
            for task in (writer, *tokenizing):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writer

    async def _write(self, session: RouterSession, context: Context) -> None:
        while True:
            frame = await session.next_frame()
            if session.overrun:
                self._log.error("router reads too slowly; session ended", router=session.router_id)
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "router reads too slowly")
            await context.write(frame)

    def _hello_reply(self) -> worker_pb2.SessionResponse:
        return worker_pb2.SessionResponse(
            hello=worker_pb2.HelloReply(
                protocol_version=PROTOCOL_VERSION,
                worker_id=self._worker_id,
                epoch=self._epoch(),
                identity=self._hub.identity.to_proto(),
            )
        )

    def _hello_error(self, hello: worker_pb2.Hello) -> Mismatch | None:
        if hello.protocol_version != PROTOCOL_VERSION:
            return Mismatch(
                f"router {hello.router_id} speaks protocol {hello.protocol_version}, this worker "
                f"{PROTOCOL_VERSION}: upgrade the older one",
                field="protocol_version",
                value=hello.protocol_version,
                limit=PROTOCOL_VERSION,
            )
        different = self._hub.identity.difference(ModelIdentity.from_proto(hello.identity))
        return different[0].error(f"router {hello.router_id}") if different else None

    async def _tokenize(self, session: RouterSession, ask: worker_pb2.Tokenize) -> None:
        result = worker_pb2.Tokenized(stream_id=ask.stream_id)
        try:
            async with self._tokenizing:
                if ask.WhichOneof("input") == "token_ids":
                    ids = unpack_tokens(ask.token_ids)
                    result.text = await asyncio.to_thread(self._text.decode, ids)
                else:
                    result.token_ids = await asyncio.to_thread(token_ids, self._text, ask)
        except KvrouteError as error:
            result.code, result.message = error.code.value[0], str(error)
        except Exception as error:  # A tokenizer's own fault must not leave the router waiting.
            self._log.exception("tokenizer failed", router=session.router_id)
            result.code = KvrouteError.code.value[0]
            result.message = f"the tokenizer failed: {type(error).__name__}"
        session.push_tokenized(result)

    async def Drain(  # noqa: N802
        self, request: worker_pb2.DrainRequest, context: Context
    ) -> worker_pb2.DrainResponse:
        grace_s = request.grace_ms / 1000.0 if request.grace_ms else float("inf")
        return worker_pb2.DrainResponse(unfinished=await self._drain(grace_s))

    async def FlushCache(  # noqa: N802
        self, request: worker_pb2.FlushCacheRequest, context: Context
    ) -> worker_pb2.FlushCacheResponse:
        before = self._hub.stats().cached_blocks
        await self._hub.flush_cache()
        after = self._hub.stats()
        return worker_pb2.FlushCacheResponse(
            dropped_blocks=before, kept_blocks=after.cached_blocks + after.locked_blocks
        )

    async def LoadAdapter(  # noqa: N802
        self, request: worker_pb2.LoadAdapterRequest, context: Context
    ) -> worker_pb2.LoadAdapterResponse:
        await _abort(context, Unsupported("this worker does not load adapters yet", field="name"))

    async def UnloadAdapter(  # noqa: N802
        self, request: worker_pb2.UnloadAdapterRequest, context: Context
    ) -> worker_pb2.UnloadAdapterResponse:
        await _abort(context, Unsupported("this worker does not load adapters yet", field="name"))


def token_ids(text: TextService, ask: worker_pb2.Tokenize) -> bytes:
    """Ids of a completion prompt or a chat, little-endian uint32. Blocking; the text service's
    errors pass through.
    """
    if ask.WhichOneof("input") == "text":
        return pack_tokens(text.encode(ask.text))
    chat = ask.chat
    return pack_tokens(
        text.encode_chat(
            [_message(message) for message in chat.messages],
            json.loads(chat.tools_json) if chat.tools_json else None,
            json.loads(chat.template_kwargs_json) if chat.template_kwargs_json else None,
        )
    )


def _message(message: router_pb2.ChatMessage) -> dict[str, Any]:
    """A message as templates expect it: only the keys that were given."""
    found: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name:
        found["name"] = message.name
    if message.tool_calls_json:
        found["tool_calls"] = json.loads(message.tool_calls_json)
    if message.tool_call_id:
        found["tool_call_id"] = message.tool_call_id
    return found


async def _abort(context: Context, error: KvrouteError) -> NoReturn:
    trailing = ((ERROR_KEY, error.detail().SerializeToString()),)
    await context.abort(error.code, str(error), trailing)
    raise AssertionError("abort always raises")
