"""The Python client.

    async with Client("127.0.0.1:50050") as client:
        async for chunk in client.generate(prompt="Once upon a time", max_tokens=32):
            print(chunk.text, end="")

Leaving an `async for` early (break, exception, cancelled task) does not end the generation by
itself: use the generation as a context manager, or call `cancel()`. Closing the client ends
everything that is still open.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import grpc

from kvroute.errors import ERROR_KEY, InvalidArgument, KvrouteError, Unavailable, from_status
from kvroute.tokens import pack_tokens, unpack_tokens
from kvroute.v1 import common_pb2, router_pb2, router_pb2_grpc

_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_REASONS = {
    common_pb2.FINISH_REASON_STOP: "stop",
    common_pb2.FINISH_REASON_LENGTH: "length",
    common_pb2.FINISH_REASON_CANCELLED: "cancelled",
    common_pb2.FINISH_REASON_ERROR: "error",
}
_SAMPLING = frozenset(common_pb2.SamplingParams.DESCRIPTOR.fields_by_name)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a generation. `finish_reason` is set in the last one: "stop" or "length"."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None = None
    stop_reason: str = ""


class Generation:
    """One running request: iterate over it, or `await` its `text()`.

    As a context manager it is cancelled on the way out if it has not ended: `async with
    client.generate(...) as run:`.
    """

    def __init__(self, call: grpc.aio.UnaryStreamCall) -> None:
        self.usage: common_pb2.Usage | None = None
        self.timing: common_pb2.Timing | None = None
        self.explain: router_pb2.Explain | None = None
        """Why it went where it went; known when it has ended."""
        self.finish_reason: str | None = None
        self._call = call

    async def request_id(self) -> str:
        """The router's id of this request, as soon as the router has answered at all."""
        for key, value in await self._call.initial_metadata() or ():
            if key == "kvroute-request-id":
                return str(value)
        return ""

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        try:
            async for part in self._call:
                if part.HasField("usage"):
                    self.usage, self.timing = part.usage, part.timing
                for output in part.outputs:
                    reason = _REASONS.get(output.finish_reason)
                    self.finish_reason = reason or self.finish_reason
                    yield Chunk(
                        output.text,
                        tuple(unpack_tokens(output.token_ids)),
                        reason,
                        output.stop_reason,
                    )
        except grpc.aio.AioRpcError as error:
            self._read_trailing(error.trailing_metadata())
            raise _mapped(error) from None
        self._read_trailing(await self._call.trailing_metadata())

    async def text(self) -> str:
        """The whole text, once it is complete."""
        return "".join([chunk.text async for chunk in self])

    def cancel(self) -> None:
        """Stops the generation everywhere. Does nothing after its end."""
        self._call.cancel()

    async def __aenter__(self) -> Generation:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()

    def _read_trailing(self, metadata: Iterable[tuple[str, Any]] | None) -> None:
        for key, value in metadata or ():
            if key == "kvroute-explain-bin":
                self.explain = router_pb2.Explain.FromString(value)


class Client:
    """A connection to one router. Safe to share among tasks of one event loop.

    `address`: HOST:PORT of a router. All methods raise errors of `kvroute.errors`.
    """

    def __init__(self, address: str = "127.0.0.1:50050", *, timeout_s: float | None = None) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Client:
        self._channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def generate(
        self,
        *,
        prompt: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        token_ids: Sequence[int] | None = None,
        timeout_s: float | None = None,
        **fields: Any,
    ) -> Generation:
        """Starts a generation from exactly one of `prompt`, `messages` (chat) and `token_ids`.

        `fields`: those of `SamplingParams` (max_tokens, temperature, top_p, seed, stop, ...) and of
        `GenerateRequest` (model, policy, tenant, adapter, priority, request_id).

        Raises:
            InvalidArgument: not exactly one input, or an unknown or badly typed field. Errors of
                the router come with the iteration.
        """
        request = build_request(prompt=prompt, messages=messages, token_ids=token_ids, **fields)
        return Generation(self._stub().Generate(request, timeout=timeout_s or self._timeout_s))

    async def route(
        self,
        *,
        prompt: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        token_ids: Sequence[int] | None = None,
        **fields: Any,
    ) -> router_pb2.Explain:
        """Where the request would go now, and why; nothing is sent there. Arguments as for
        `generate`.
        """
        request = build_request(prompt=prompt, messages=messages, token_ids=token_ids, **fields)
        try:
            reply: router_pb2.RouteResponse = await self._stub().Route(
                router_pb2.RouteRequest(request=request), timeout=self._timeout_s
            )
        except grpc.aio.AioRpcError as error:
            raise _mapped(error) from None
        return reply.explain

    async def explain(self, request_id: str) -> router_pb2.Explain:
        """Why a finished request went where it went.

        Raises:
            NotFound: the router does not know it, or no longer; says which router to ask.
        """
        try:
            reply: router_pb2.GetExplainResponse = await self._stub().GetExplain(
                router_pb2.GetExplainRequest(request_id=request_id), timeout=self._timeout_s or 10.0
            )
        except grpc.aio.AioRpcError as error:
            raise _mapped(error) from None
        return reply.explain

    async def cluster_state(self, model: str = "") -> router_pb2.ClusterStateResponse:
        """What the router knows of models, workers and the control plane."""
        try:
            reply: router_pb2.ClusterStateResponse = await self._stub().ClusterState(
                router_pb2.ClusterStateRequest(model=model), timeout=self._timeout_s or 10.0
            )
        except grpc.aio.AioRpcError as error:
            raise _mapped(error) from None
        return reply

    def _stub(self) -> Any:
        if self._channel is None:
            raise Unavailable("the client is not open; use: async with Client(...) as client")
        return router_pb2_grpc.RouterStub(self._channel)


def build_request(
    *,
    prompt: str | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    token_ids: Sequence[int] | None = None,
    **fields: Any,
) -> router_pb2.GenerateRequest:
    """The message for `Client.generate`'s arguments; raises `InvalidArgument` like it."""
    given = [
        name
        for name, value in (("prompt", prompt), ("messages", messages), ("token_ids", token_ids))
        if value is not None
    ]
    if len(given) != 1:
        raise InvalidArgument(
            "give exactly one of prompt, messages and token_ids, not "
            + (" and ".join(given) or "none"),
            field=given[1] if given else "prompt",
            value=", ".join(given),
            limit="exactly one",
        )
    sampling = {name: value for name, value in fields.items() if name in _SAMPLING}
    others = {name: value for name, value in fields.items() if name not in _SAMPLING}
    tools, template = others.pop("tools", None), others.pop("template_kwargs", None)
    try:
        request = router_pb2.GenerateRequest(
            sampling=common_pb2.SamplingParams(
                **{name: value for name, value in sampling.items() if value is not None}
            ),
            **{name: value for name, value in others.items() if value is not None},
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"a field of the request is wrong: {error}", field="request"
        ) from None
    if prompt is not None:
        request.prompt = prompt
    elif token_ids is not None:
        request.token_ids = _packed(token_ids)
    else:
        request.chat.SetInParent()
        for message in messages or ():
            request.chat.messages.append(_chat_message(message))
        request.chat.tools_json = json.dumps(tools) if tools else ""
        request.chat.template_kwargs_json = json.dumps(template) if template else ""
    return request


def _packed(token_ids: Sequence[int]) -> bytes:
    for number, token in enumerate(token_ids):
        if not 0 <= token < 1 << 32:
            raise InvalidArgument.of(f"token_ids[{number}]", token, "0 or more and below 2^32")
    return pack_tokens(token_ids)


def _chat_message(message: Mapping[str, Any]) -> router_pb2.ChatMessage:
    calls = message.get("tool_calls")
    try:
        return router_pb2.ChatMessage(
            role=message.get("role", ""),
            content=message.get("content") or "",
            name=message.get("name", ""),
            tool_calls_json=json.dumps(calls) if calls else "",
            tool_call_id=message.get("tool_call_id", ""),
        )
    except TypeError as error:
        raise InvalidArgument(f"a chat message is wrong: {error}", field="messages") from None


def _mapped(error: grpc.aio.AioRpcError) -> KvrouteError:
    """The error that a failed call stands for; an unreachable router says what to do."""
    detail = None
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_KEY:
            detail = common_pb2.ErrorDetail.FromString(value)
    message = error.details() or error.code().name
    if detail is None and error.code() is grpc.StatusCode.UNAVAILABLE:
        message = (
            f"no router answers there ({message.splitlines()[0][:120]}); start one with: kvroute up"
        )
    return from_status(error.code(), message, detail)
