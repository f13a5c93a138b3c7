"""Bodies of `POST /v1/chat/completions`, and the shapes of its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvroute.v1 import router_pb2
from router_svc.http.call import Call, Context, common, parse_n, parse_stream, with_input
from router_svc.http.fields import Fields, to_json
from router_svc.http.messages import parse_messages, prefixes
from router_svc.http.run import Piece, Whole, told_stop
from router_svc.http.sampling import parse_sampling
from router_svc.http.tool_text import Call as ToolCall
from router_svc.http.tool_text import Found, ToolText
from router_svc.http.tools import parse_tools

_MAX_TOKENS = ("max_completion_tokens", "max_tokens")


def parse_chat(values: dict[str, Any], context: Context) -> Call:
    """Raises `InvalidArgument` that names the field."""
    fields = Fields(values)
    stream = parse_stream(fields)
    sampling = parse_sampling(fields, _MAX_TOKENS)
    n = parse_n(fields, 1, context)
    messages = parse_messages(fields, context.max_messages)
    tools = parse_tools(fields)
    _refuse_unserved(fields)
    chat = router_pb2.Chat(
        messages=messages.messages,
        tools_json=tools.json,
        template_kwargs_json=_template_arguments(fields),
    )
    request = with_input(common(fields, context, sampling), router_pb2.GenerateRequest(chat=chat))
    request.hints.retention = max(request.hints.retention, messages.retention)
    return Call(
        requests=(request,),
        n=n,
        stream=stream,
        token_ids=fields.flag("return_token_ids"),
        tools=tools,
        prefixes=tuple(prefixes(chat, messages.marks)),
        ignored=fields.ignored(),
    )


def _refuse_unserved(fields: Fields) -> None:
    fields.refuse("response_format", "output is not constrained", {"type": "text"})
    fields.refuse("logprobs", "the engine does not tell them yet", False)
    fields.refuse("top_logprobs", "the engine does not tell them yet", 0)
    fields.refuse("modalities", "only text is", ["text"], [])
    fields.refuse("audio", "only text is")
    fields.refuse("chat_template", "the model's own is used")
    fields.refuse("add_generation_prompt", "the assistant always speaks next", True)
    fields.refuse("continue_final_message", "send a completion", False)


def _template_arguments(fields: Fields) -> str:
    given = fields.child("chat_template_kwargs")
    return "" if given is None else to_json("chat_template_kwargs", dict(given.values))


class ChatShape:
    """`chat.completion` objects. The role comes with the first text of a stream, not before it:
    clients time the first token by the first choice.
    """

    id_prefix = "chatcmpl-"
    whole_object, chunk_object = "chat.completion", "chat.completion.chunk"

    def __init__(
        self,
        call: Call,
        parser: Callable[[], ToolText] | None,
        new_call_id: Callable[[], str],
    ) -> None:
        """`parser`: of tool calls; None tells all text as it is."""
        self._token_ids = call.token_ids
        self._parallel = call.tools.parallel
        self._parser = parser if call.tools.active else None
        self._parsers: dict[int, ToolText] = {}
        self._calls: dict[int, int] = {}
        self._begun: set[int] = set()
        self._new_call_id = new_call_id

    def chunk(self, piece: Piece) -> dict[str, Any]:
        """The choice in a stream's event."""
        index = piece.index
        delta: dict[str, Any] = {}
        if index not in self._begun:
            self._begun.add(index)
            delta["role"] = "assistant"
        found = self._read(index, piece.text, piece.finish_reason is not None)
        if found.text or (not found.calls and piece.finish_reason is None):
            delta["content"] = found.text
        calls = self._tell(index, found.calls)
        if calls:
            delta["tool_calls"] = calls
        return self._choice("delta", delta, piece)

    def whole(self, whole: Whole) -> dict[str, Any]:
        """The choice in a plain answer."""
        found = self._read(whole.index, whole.text, True)
        calls = self._tell(whole.index, found.calls)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": found.text.strip() or None if calls else found.text,
            "refusal": None,
        }
        if calls:
            message["tool_calls"] = [
                {key: value for key, value in call.items() if key != "index"} for call in calls
            ]
        return self._choice("message", message, whole)

    def _read(self, index: int, text: str, ended: bool) -> Found:
        if self._parser is None:
            return Found(text)
        parser = self._parsers.get(index)
        if parser is None:
            parser = self._parsers[index] = self._parser()
        found = parser.push(text)
        if not ended:
            return found
        last = parser.finish()
        return Found(found.text + last.text, found.calls + last.calls)

    def _tell(self, index: int, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
        told = []
        for call in calls:
            number = self._calls.get(index, 0)
            if number and not self._parallel:
                break
            self._calls[index] = number + 1
            told.append(
                {
                    "index": number,
                    "id": self._new_call_id(),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
            )
        return told

    def _choice(self, key: str, content: dict[str, Any], part: Piece | Whole) -> dict[str, Any]:
        reason = part.finish_reason
        if reason == "stop" and self._calls.get(part.index):
            reason = "tool_calls"
        choice = {
            "index": part.index,
            key: content,
            "logprobs": None,
            "finish_reason": reason,
            "stop_reason": told_stop(part.request, part.stop_reason),
        }
        if self._token_ids:
            choice["token_ids"] = part.tokens
        return choice
