"""The quick way to write a stream's choice says the same as the full one."""

from __future__ import annotations

import json

import pytest

from kvroute.v1 import router_pb2
from router_svc.http.answer import Shape
from router_svc.http.call import Call, StreamOptions
from router_svc.http.chat import ChatShape
from router_svc.http.completions import CompletionShape
from router_svc.http.run import Choice, Piece
from router_svc.http.tool_text import AutoText
from router_svc.http.tools import Tools

TEXTS = ["", "plain", "é世👋", 'a"b\\c\n\t\x00\x1f', "\u2028\u2029\x7f", "</script>"]


def piece(text: str, reason: str | None = None) -> Piece:
    request = router_pb2.GenerateRequest(prompt="x")
    choice = Choice(1, 0, 1, request, router_pb2.Explain())
    return Piece(choice, text, b"\1\0\0\0", reason, "", None)


def call(*, token_ids: bool = False, tools: Tools | None = None) -> Call:
    return Call((), 1, StreamOptions(), token_ids=token_ids, tools=tools or Tools())


def chat(one: Call) -> ChatShape:
    return ChatShape(one, AutoText, lambda: "id")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("shape", [CompletionShape(call()), chat(call())])
def test_the_quick_form_equals_the_full_one(shape: Shape, text: str) -> None:
    shape.chunk(piece("first"))
    quick = shape.quick(piece(text))
    assert quick is not None
    assert "\n" not in quick
    assert json.loads(quick) == shape.chunk(piece(text))


@pytest.mark.parametrize(
    "shape",
    [
        CompletionShape(call(token_ids=True)),
        chat(call(token_ids=True)),
        chat(call(tools=Tools("[]", active=True))),
    ],
)
def test_whatever_needs_more_is_written_in_full(shape: Shape) -> None:
    shape.chunk(piece("first"))
    assert shape.quick(piece("text")) is None


def test_first_and_last_pieces_are_written_in_full() -> None:
    shape = chat(call())
    assert shape.quick(piece("first")) is None
    assert shape.quick(piece("last", "stop")) is None
