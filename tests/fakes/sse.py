"""A strict reader of event streams, after the WHATWG rules, refusing what they merely tolerate."""

from __future__ import annotations

import json
from typing import Any


def read_events(data: bytes) -> list[str]:
    """The data of every event. Raises AssertionError on anything but `data:` lines and comments,
    each event ended by an empty line, all of it UTF-8.
    """
    text = data.decode("utf-8", "strict")
    assert "\r" not in text
    assert text.endswith("\n\n"), f"cut off: {text[-80:]!r}"
    found = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        assert all(line.startswith("data: ") for line in lines), block
        if lines:
            found.append("\n".join(line.removeprefix("data: ") for line in lines))
    return found


def read_stream(data: bytes) -> list[dict[str, Any]]:
    """The JSON objects of a complete OpenAI stream: one line each, `[DONE]` last and once."""
    *events, last = read_events(data)
    assert last == "[DONE]"
    assert all("\n" not in one for one in events)
    return [json.loads(one) for one in events]
