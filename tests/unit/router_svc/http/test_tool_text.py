"""Tool calls in generated text, whole and cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_svc.http.tool_text import PARSERS, AutoText, Call, Found, HermesText, ToolText

HERMES = '<tool_call>\n{"name": "f", "arguments": {"x": "é <b>"}}\n</tool_call>'
F = Call("f", '{"x": "é <b>"}')


def read(parser: ToolText, *pieces: str) -> Found:
    """All that is told over the pieces."""
    found = [*(parser.push(piece) for piece in pieces), parser.finish()]
    calls = tuple(call for one in found for call in one.calls)
    return Found("".join(one.text for one in found), calls)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("hermes", HERMES, Found("", (F,))),
        ("hermes", f"Sure. {HERMES}\n{HERMES} done", Found("Sure. \n done", (F, F))),
        ("hermes", HERMES.removesuffix("</tool_call>"), Found("", (F,))),
        ("hermes", "a <tool> b", Found("a <tool> b")),
        ("hermes", "<tool_call>no json</tool_call>", Found("<tool_call>no json</tool_call>")),
        ("hermes", '<tool_call>{"x": 1}', Found('<tool_call>{"x": 1}')),
        ("llama3", '{"name": "f", "parameters": {"x": "é <b>"}}', Found("", (F,))),
        ("llama3", '<|python_tag|>{"name": "g", "parameters": {}}', Found("", (Call("g", "{}"),))),
        (
            "llama3",
            '{"name": "g"}; {"name": "h", "arguments": "{}"}',
            Found("", (Call("g", "{}"), Call("h", "{}"))),
        ),
        ("llama3", '{"answer": 42}', Found('{"answer": 42}')),
        ("llama3", "plain", Found("plain")),
        ("auto", "plain text", Found("plain text")),
        ("auto", f"I call: {HERMES}", Found("I call: ", (F,))),
        ("auto", '\n {"name": "g"}', Found("", (Call("g", "{}"),))),
        ("auto", '{"answer": 42} is it', Found('{"answer": 42} is it')),
        ("auto", "", Found("")),
        ("auto", "  ", Found("  ")),
        ("auto", "<|py", Found("<|py")),
    ],
)
def test_calls_are_found_wherever_the_text_is_cut(kind: str, text: str, expected: Found) -> None:
    assert read(PARSERS[kind](), text) == expected
    assert read(PARSERS[kind](), *text) == expected


def test_text_before_a_call_is_told_at_once() -> None:
    parser = HermesText()
    assert parser.push("Sure. <tool").text == "Sure. "
    assert parser.push("s>").text == "<tools>"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(
            ["<tool_call>", "</tool_call>", '{"name": "f"}', "<", "a", " ", '{"x":', "}", "<|py"]
        ),
        max_size=12,
    ),
    st.data(),
)
def test_how_text_is_cut_never_matters(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    pieces = []
    rest = text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        pieces.append(rest[:size])
        rest = rest[size:]
    whole, cut = read(AutoText(), text), read(AutoText(), *pieces)
    assert cut == whole
    for call in whole.calls:
        json.loads(call.arguments)
