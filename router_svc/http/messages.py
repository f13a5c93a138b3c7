"""Chat messages of a body: string content or text parts, tool calls, and cache breakpoints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kvroute.errors import InvalidArgument
from kvroute.v1 import common_pb2, router_pb2
from router_svc.http.fields import Fields, check_text, shown, to_json, wrong_type
from router_svc.http.hints import cache_control

_ROLES = {
    "system": "system",
    # Newer OpenAI clients' word for it; chat templates know only "system".
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_MAX_PARTS = 1024
_MAX_CALLS = 128
MAX_BREAKPOINTS = 4
"""As many as the services that introduced `cache_control` take; later ones count, earlier ones
fall away.
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """A cache breakpoint: behind `chars` characters of the content of message `message`."""

    message: int
    chars: int


@dataclass(slots=True)
class Messages:
    """Parsed messages; `retention` is the longest that a breakpoint asked for."""

    messages: list[router_pb2.ChatMessage] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    retention: common_pb2.CacheRetention = common_pb2.CACHE_RETENTION_UNSPECIFIED

    def mark(self, fields: Fields, chars: int) -> None:
        """Notes a breakpoint if `fields` carries one; the message is the one that comes next."""
        asked = cache_control(fields)
        if asked is not None:
            self.marks.append(Mark(len(self.messages), chars))
            self.retention = max(self.retention, asked)


def parse_messages(fields: Fields, most: int) -> Messages:
    """The `messages` of a chat body.

    Raises:
        InvalidArgument: naming the message and its field.
    """
    found = Messages()
    given = fields.objects("messages", most)
    if not given:
        raise InvalidArgument.of(fields.name("messages"), "empty", "at least one message")
    for one in given:
        found.messages.append(_message(one, found))
    del found.marks[:-MAX_BREAKPOINTS]
    return found


def prefixes(chat: router_pb2.Chat, marks: Sequence[Mark]) -> list[router_pb2.Chat]:
    """The chat up to each breakpoint, with the same tools and template arguments."""
    found = []
    for mark in marks:
        prefix = router_pb2.Chat()
        prefix.CopyFrom(chat)
        del prefix.messages[mark.message + 1 :]
        last = prefix.messages[mark.message]
        last.content = last.content[: mark.chars]
        found.append(prefix)
    return found


def _message(fields: Fields, found: Messages) -> router_pb2.ChatMessage:
    role = fields.text("role")
    if role not in _ROLES:
        raise InvalidArgument.of(fields.name("role"), shown(role), "one of " + ", ".join(_ROLES))
    content = _content(fields, found)
    calls = _tool_calls(fields)
    if not fields.has("content") and not (role == "assistant" and calls):
        raise InvalidArgument.of(fields.name("content"), "missing", "a string or an array of parts")
    fields.refuse("function_call", "send tool_calls")
    fields.refuse("audio", "only text is")
    return router_pb2.ChatMessage(
        role=_ROLES[role],
        content=content,
        name=fields.text("name"),
        tool_calls_json=calls,
        tool_call_id=fields.text("tool_call_id"),
    )


def _content(fields: Fields, found: Messages) -> str:
    value = fields.get("content")
    if value is None:
        return ""
    if isinstance(value, str):
        text = check_text(fields.name("content"), value)
    elif isinstance(value, list):
        text = ""
        for part in fields.objects("content", _MAX_PARTS):
            text += _part(part)
            found.mark(part, len(text))
    else:
        raise wrong_type(fields.name("content"), value, str)
    found.mark(fields, len(text))
    return text


def _part(part: Fields) -> str:
    kind = part.text("type")
    if kind not in ("text", "input_text", "output_text"):
        raise InvalidArgument.of(part.name("type"), shown(kind), "text: only text is served")
    if not part.has("text"):
        raise InvalidArgument.of(part.name("text"), "missing", "a string")
    return part.text("text")


def _tool_calls(fields: Fields) -> str:
    """JSON of earlier tool calls as templates expect them: arguments as an object, not as the
    string that OpenAI sends.
    """
    calls = [_tool_call(call) for call in fields.objects("tool_calls", _MAX_CALLS)]
    return to_json(fields.name("tool_calls"), calls) if calls else ""


def _tool_call(call: Fields) -> dict[str, Any]:
    function = call.child("function")
    if function is None:
        raise InvalidArgument.of(call.name("function"), "missing", "an object with a name")
    name = function.text("name")
    if not name:
        raise InvalidArgument.of(function.name("name"), "empty", "the name of a function")
    return {
        "id": call.text("id"),
        "type": "function",
        "function": {"name": name, "arguments": _arguments(function)},
    }


def _arguments(function: Fields) -> Any:
    value = function.get("arguments")
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    text = check_text(function.name("arguments"), value)
    try:
        parsed = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text
    return parsed if isinstance(parsed, dict) else text
