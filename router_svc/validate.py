"""Checks a request field by field before anything is done for it: the first wrong field is named
with value and limit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection

from cache_index.identity import ModelIdentity
from kvroute.errors import InvalidArgument
from kvroute.tokens import TOKEN_BYTES, unpack_tokens
from kvroute.v1 import common_pb2, router_pb2

MAX_STOPS, MAX_STOP_CHARS, MAX_TOP_K, MAX_NAME = 16, 256, 1 << 20, 256
MAX_LOGPROBS = 20
_INPUTS = ("prompt", "chat", "token_ids")


def check_request(request: router_pb2.GenerateRequest, policies: Collection[str]) -> None:
    """Everything that can be judged without the model.

    Raises:
        InvalidArgument: naming the field, its value and the limit.
    """
    kind = request.WhichOneof("input")
    if kind is None:
        raise InvalidArgument(
            "prompt is missing; give exactly one of prompt, chat and token_ids",
            field="prompt",
            limit="exactly one of " + ", ".join(_INPUTS),
        )
    if kind == "prompt" and not request.prompt:
        raise InvalidArgument.of("prompt", "empty", "at least one character")
    if kind == "chat":
        _check_chat(request.chat)
    if kind == "token_ids":
        _check_ids(request.token_ids)
    if request.policy and request.policy not in policies:
        raise InvalidArgument.of("policy", request.policy, "one of " + ", ".join(sorted(policies)))
    for field in ("model", "tenant", "adapter", "request_id"):
        if len(getattr(request, field)) > MAX_NAME:
            raise InvalidArgument.of(
                field, f"{len(getattr(request, field))} characters long", f"at most {MAX_NAME}"
            )
    _check_sampling(request.sampling)


def check_tokens(
    token_ids: bytes, sampling: common_pb2.SamplingParams, identity: ModelIdentity, source: str
) -> None:
    """Everything that needs the model: token range and context length. `source`: the field the ids
    came from.

    Raises:
        InvalidArgument: naming the field, its value and the limit.
    """
    count = len(token_ids) // TOKEN_BYTES
    if count == 0:
        raise InvalidArgument.of(source, "empty", "at least one token")
    if source == "token_ids":
        check_ids(token_ids, identity, source)
    limit = identity.max_context
    if count >= limit:
        raise InvalidArgument.of(
            source, f"{count} tokens long", f"below {limit}, the context of {identity.served_name}"
        )
    if count + sampling.max_tokens > limit:
        raise InvalidArgument.of(
            "sampling.max_tokens",
            sampling.max_tokens,
            f"at most {limit - count}: the prompt has {count} tokens and the context {limit}",
        )
    for token in (*sampling.stop_token_ids, *sampling.logit_bias):
        if token >= identity.vocab_size:
            raise InvalidArgument.of("sampling token id", token, f"below {identity.vocab_size}")


def check_ids(token_ids: bytes, identity: ModelIdentity, name: str) -> None:
    """Raises `InvalidArgument` that names the first id beyond the vocabulary, as `name[...]`."""
    ids = unpack_tokens(token_ids)
    largest = max(ids, default=0)
    if largest >= identity.vocab_size:
        raise InvalidArgument.of(
            f"{name}[{ids.index(largest)}]", largest, f"below {identity.vocab_size}"
        )


def _check_ids(token_ids: bytes) -> None:
    if not token_ids:
        raise InvalidArgument.of("token_ids", "empty", "at least one token")
    if len(token_ids) % TOKEN_BYTES:
        raise InvalidArgument.of(
            "token_ids",
            f"{len(token_ids)} bytes long",
            "a multiple of 4 (little-endian uint32 each)",
        )


def _check_chat(chat: router_pb2.Chat) -> None:
    if not chat.messages:
        raise InvalidArgument.of("chat.messages", "empty", "at least one message")
    for number, message in enumerate(chat.messages):
        if not message.role:
            raise InvalidArgument.of(
                f"chat.messages[{number}].role", "empty", "user, assistant, system or tool"
            )
        _check_json(f"chat.messages[{number}].tool_calls_json", message.tool_calls_json, list)
    _check_json("chat.tools_json", chat.tools_json, list)
    _check_json("chat.template_kwargs_json", chat.template_kwargs_json, dict)


def _check_json(field: str, text: str, kind: type) -> None:
    if not text:
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument.of(field, text, f"JSON ({error})") from None
    if not isinstance(value, kind):
        raise InvalidArgument.of(field, text, "a JSON array" if kind is list else "a JSON object")


def _check_sampling(sampling: common_pb2.SamplingParams) -> None:
    _within("temperature", sampling.temperature, 0.0, 100.0)
    _within("top_p", sampling.top_p, 0.0, 1.0)
    _within("min_p", sampling.min_p, 0.0, 1.0)
    _within("repetition_penalty", sampling.repetition_penalty, 0.0, 100.0)
    _within("presence_penalty", sampling.presence_penalty, -100.0, 100.0)
    _within("frequency_penalty", sampling.frequency_penalty, -100.0, 100.0)
    for bias in sampling.logit_bias.values():
        _within("logit_bias", bias, -100.0, 100.0)
    if sampling.top_k > MAX_TOP_K:
        raise InvalidArgument.of("sampling.top_k", sampling.top_k, f"at most {MAX_TOP_K}")
    if sampling.n > 1:
        raise InvalidArgument.of(
            "sampling.n", sampling.n, "1: several completions are not served yet"
        )
    if sampling.logprobs > MAX_LOGPROBS:
        raise InvalidArgument.of("sampling.logprobs", sampling.logprobs, f"at most {MAX_LOGPROBS}")
    if sampling.max_tokens and sampling.min_tokens > sampling.max_tokens:
        raise InvalidArgument.of(
            "sampling.min_tokens", sampling.min_tokens, f"at most max_tokens, {sampling.max_tokens}"
        )
    if len(sampling.stop) > MAX_STOPS:
        raise InvalidArgument.of(
            "sampling.stop", f"{len(sampling.stop)} strings", f"at most {MAX_STOPS}"
        )
    for number, text in enumerate(sampling.stop):
        if not 0 < len(text) <= MAX_STOP_CHARS:
            raise InvalidArgument.of(
                f"sampling.stop[{number}]", f"{len(text)} characters long", f"1 to {MAX_STOP_CHARS}"
            )


def _within(field: str, value: float, low: float, high: float) -> None:
    if not math.isfinite(value) or not low <= value <= high:
        shown = f"{low:g} or more" if value < low else f"between {low:g} and {high:g}"
        raise InvalidArgument.of(f"sampling.{field}", f"{value:g}", shown)
