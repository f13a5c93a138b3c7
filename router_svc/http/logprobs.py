"""Log-probabilities in OpenAI's shapes: lists side by side for completions, objects for chats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvroute.v1 import router_pb2

_LOWEST = -9999.0
"""JSON has no infinity; other servers send this for what cannot happen."""


def completion_logprobs(
    found: Sequence[router_pb2.TokenLogprobs], offset: int
) -> dict[str, list[Any]]:
    """Of a completion. `offset`: characters of the text before the first of these tokens."""
    offsets = []
    for one in found:
        offsets.append(offset)
        offset += len(one.chosen.text)
    return {
        "text_offset": offsets,
        "tokens": [one.chosen.text for one in found],
        "token_logprobs": [_finite(one.chosen.logprob) for one in found],
        "top_logprobs": [{top.text: _finite(top.logprob) for top in one.top} for one in found],
    }


def chat_logprobs(found: Sequence[router_pb2.TokenLogprobs]) -> dict[str, Any]:
    """Of a chat message."""
    content = [
        _entry(one.chosen) | {"top_logprobs": [_entry(top) for top in one.top]} for one in found
    ]
    return {"content": content, "refusal": None}


def _entry(one: router_pb2.TokenLogprob) -> dict[str, Any]:
    """Part of a character has no text, and its bytes are not known here."""
    whole = "\ufffd" not in one.text
    return {
        "token": one.text,
        "logprob": _finite(one.logprob),
        "bytes": list(one.text.encode()) if whole else None,
    }


def _finite(logprob: float) -> float:
    return max(_LOWEST, logprob)
