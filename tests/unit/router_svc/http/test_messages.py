"""Chat messages: contents, tool calls, breakpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvroute.errors import InvalidArgument
from kvroute.tokens import pack_tokens
from kvroute.v1 import common_pb2
from router_svc.http.call import Call, Context
from router_svc.http.chat import parse_chat
from router_svc.http.generate import shared_tokens

MARK = {"cache_control": {"type": "ephemeral"}}
LONG = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def parsed(*messages: Any) -> Call:
    return parse_chat({"messages": list(messages)}, Context())


def test_text_and_parts_are_the_same() -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    for content in ("a b", parts):
        chat = parsed({"role": "user", "content": content}).requests[0].chat
        assert chat.messages[0].content == "a b"


def test_a_developer_speaks_as_the_system() -> None:
    chat = parsed({"role": "developer", "content": "x"}).requests[0].chat
    assert chat.messages[0].role == "system"


def test_arguments_of_earlier_calls_become_objects() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    chat = (
        parsed(
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "2"},
        )
        .requests[0]
        .chat
    )
    assert json.loads(chat.messages[0].tool_calls_json) == [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    ]
    assert chat.messages[1].tool_call_id == "1"


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (5, "messages[0]"),
        ({"role": "robot", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            "messages[0].content[0].type",
        ),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": ""}}]},
            "messages[0].tool_calls[0].function.name",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 3}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"role": "assistant", "content": "x", "function_call": {}}, "messages[0].function_call"),
        ({"role": "user", "content": "x", "name": 1}, "messages[0].name"),
        ({"role": "user", "content": "x", "cache_control": 1}, "messages[0].cache_control"),
    ],
)
def test_a_wrong_message_is_named(message: Any, named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parsed(message)
    assert caught.value.field == named


def test_no_or_too_many_messages_are_refused() -> None:
    for messages in ([], [{"role": "user", "content": "x"}] * 3):
        with pytest.raises(InvalidArgument) as caught:
            parse_chat({"messages": messages}, Context(max_messages=2))
        assert caught.value.field == "messages"


def test_breakpoints_become_beginnings_of_the_chat() -> None:
    call = parsed(
        {"role": "system", "content": [{"type": "text", "text": "rules", **LONG}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "book", **MARK}, {"type": "text", "text": " ask"}],
        },
    )
    shown = [[message.content for message in prefix.messages] for prefix in call.prefixes]
    assert shown == [["rules"], ["rules", "book"]]
    assert call.requests[0].hints.retention == common_pb2.CACHE_RETENTION_LONG


def test_only_the_last_breakpoints_count() -> None:
    call = parsed(*({"role": "user", "content": str(n), **MARK} for n in range(6)))
    assert [len(prefix.messages) for prefix in call.prefixes] == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [([], [], 0), ([1, 2, 3], [1, 2, 3], 3), ([1, 2, 3], [1, 2, 4, 5], 2), ([1], [2], 0)],
)
def test_shared_tokens_counts_whole_tokens(left: list[int], right: list[int], shared: int) -> None:
    assert shared_tokens(pack_tokens(left), pack_tokens(right)) == shared
