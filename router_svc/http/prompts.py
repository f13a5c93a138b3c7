"""The `prompt` of a completion body: text, token ids, or a list of either."""

from __future__ import annotations

import struct
from typing import Any

from kvroute.errors import InvalidArgument
from kvroute.tokens import pack_tokens
from kvroute.v1 import router_pb2
from router_svc.http.fields import Fields, check_text, shown
from router_svc.http.sampling import check_token


def parse_prompts(fields: Fields, most: int) -> list[router_pb2.GenerateRequest]:
    """One request for each prompt, with only its input set.

    Raises:
        InvalidArgument: naming the prompt, or the token in it.
    """
    value = fields.get("prompt")
    if value is None:
        raise InvalidArgument.of("prompt", "missing", "a string, token ids, or an array of these")
    if isinstance(value, list) and value and isinstance(value[0], str | list):
        if len(value) > most:
            raise InvalidArgument.of("prompt", f"{len(value)} prompts", f"at most {most}")
        return [_prompt(f"prompt[{number}]", one) for number, one in enumerate(value)]
    return [_prompt("prompt", value)]


def pack_ids(name: str, ids: list[Any]) -> bytes:
    """Token ids as they travel.

    Raises:
        InvalidArgument: naming the first that is none.
    """
    # Whole-list checks in C: prompts of 100,000 ids are common.
    if set(map(type, ids)) == {int}:
        try:
            return pack_tokens(ids)
        except struct.error:
            pass
    for number, token in enumerate(ids):
        check_token(f"{name}[{number}]", token)
    raise InvalidArgument.of(name, "empty", "at least one token")


def _prompt(name: str, value: Any) -> router_pb2.GenerateRequest:
    if isinstance(value, str):
        if not value:
            raise InvalidArgument.of(name, "empty", "at least one character")
        return router_pb2.GenerateRequest(prompt=check_text(name, value))
    if isinstance(value, list):
        return router_pb2.GenerateRequest(token_ids=pack_ids(name, value))
    raise InvalidArgument.of(name, shown(value), "a string or an array of token ids")
