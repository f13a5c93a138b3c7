"""Finds tool calls in generated text as it comes, in the two forms that most templates teach.

Hermes (Qwen, Hermes, SmolLM): `<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>`, any
number of times, between other text. Llama 3: the whole answer is `{"name": "f", "parameters":
{...}}`, several joined by ";", maybe behind `<|python_tag|>`.

A call is held back until it is whole and then told at once; what turns out to be none is told as
text. Example, Hermes: "Sure. <tool" tells "Sure. " and holds "<tool"; with "s>" it is told as
"<tools>".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

OPEN, CLOSE, PYTHON_TAG = "<tool_call>", "</tool_call>", "<|python_tag|>"


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `arguments` is JSON text, as OpenAI clients expect it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Found:
    """What new text brought: text for the reader, and calls that are whole now."""

    text: str = ""
    calls: tuple[Call, ...] = ()


class ToolText(Protocol):
    """Of one answer. State is a function of the texts pushed."""

    def push(self, text: str) -> Found:
        """What can be told after `text`."""

    def finish(self) -> Found:
        """The rest, once the answer has ended."""


class HermesText:
    """Calls between tags."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def push(self, text: str) -> Found:
        self._held += text
        told: list[str] = []
        calls: list[Call] = []
        while True:
            tag = CLOSE if self._inside else OPEN
            at = self._held.find(tag)
            if at < 0:
                break
            before, self._held = self._held[:at], self._held[at + len(tag) :]
            if self._inside:
                call = parse_call(before)
                if call is None:
                    told.append(OPEN + before + CLOSE)
                else:
                    calls.append(call)
            else:
                told.append(before)
            self._inside = not self._inside
        if not self._inside:
            keep = _overlap(self._held, OPEN)
            told.append(self._held[: len(self._held) - keep])
            self._held = self._held[len(self._held) - keep :]
        return Found("".join(told), tuple(calls))

    def finish(self) -> Found:
        """A call without its closing tag counts if its JSON is whole: stop strings eat tags."""
        held, self._held = self._held, ""
        if not self._inside:
            return Found(held)
        self._inside = False
        call = parse_call(held)
        return Found(OPEN + held) if call is None else Found("", (call,))


class JsonText:
    """The whole answer is one call or several."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> Found:
        self._held += text
        return Found()

    def finish(self) -> Found:
        held, self._held = self._held, ""
        calls = parse_calls(held.strip().removeprefix(PYTHON_TAG))
        return Found("", calls) if calls else Found(held)


class AutoText:
    """Decides by how the answer begins: a brace or the python tag means JSON, all else Hermes."""

    def __init__(self) -> None:
        self._held = ""
        self._chosen: ToolText | None = None

    def push(self, text: str) -> Found:
        if self._chosen is not None:
            return self._chosen.push(text)
        self._held += text
        start = self._held.lstrip()
        if not start or (len(start) < len(PYTHON_TAG) and PYTHON_TAG.startswith(start)):
            return Found()
        return self._choose(start).push(self._take())

    def finish(self) -> Found:
        if self._chosen is None:
            return Found(self._take())
        return self._chosen.finish()

    def _choose(self, start: str) -> ToolText:
        is_json = start.startswith(("{", PYTHON_TAG))
        self._chosen = JsonText() if is_json else HermesText()
        return self._chosen

    def _take(self) -> str:
        held, self._held = self._held, ""
        return held


PARSERS: dict[str, type[HermesText] | type[JsonText] | type[AutoText]] = {
    "auto": AutoText,
    "hermes": HermesText,
    "llama3": JsonText,
}


def parse_calls(text: str) -> tuple[Call, ...]:
    """JSON calls joined by ";" or white space; empty if anything else stands there."""
    decoder = json.JSONDecoder()
    calls: list[Call] = []
    at = 0
    while at < len(text):
        if text[at] in "; \t\r\n":
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return ()
        call = _as_call(value)
        if call is None:
            return ()
        calls.append(call)
    return tuple(calls)


def parse_call(text: str) -> Call | None:
    """Exactly one call, or None."""
    calls: Sequence[Call] = parse_calls(text)
    return calls[0] if len(calls) == 1 else None


def _as_call(value: object) -> Call | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        # Some models write the arguments as a string that holds JSON already.
        return Call(value["name"], arguments)
    return Call(value["name"], json.dumps(arguments, ensure_ascii=False))


def _overlap(text: str, tag: str) -> int:
    """Length of the longest proper prefix of `tag` that `text` ends with."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0
