"""Requests to fuzz an OpenAPI front with: fitting ones, ones with a wrong field, and rubbish."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fakes.openapi import Schemas

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
_ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    -(10**30),
    1 << 31,
    1 << 32,
    1 << 64,
    1e308,
    "",
    "x",
    "\x00",
    "a" * 5000,
    [],
    [[]],
    [None],
    ["x", 1],
    {},
    {"": ""},
    {"a": {"b": [1]}},
)
_JUDGED_LATER = (
    "model",
    "policy",
    "min_tokens",
    "best_of",
    "stop_token_ids",
    "logit_bias",
    "echo",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One request. `kind`: "fits", "wrong" (one field, `field`, is) or "rubbish"."""

    kind: str
    method: str
    path: str
    body: bytes
    field: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    path: str
    schema: dict[str, Any]


def endpoints(document: dict[str, Any]) -> list[Endpoint]:
    """Those that take a JSON body."""
    found = []
    for path, methods in document["paths"].items():
        body = methods.get("post", {}).get("requestBody")
        if body is not None:
            found.append(Endpoint(path, body["content"]["application/json"]["schema"]))
    return found


def cases(document: dict[str, Any], seed: int, count: int) -> Iterator[Case]:
    """`count` cases, a function of the seed."""
    rng = Random(seed)
    schemas = Schemas(document)
    found = endpoints(document)
    paths = sorted(document["paths"])
    for _ in range(count):
        endpoint = rng.choice(found)
        roll = rng.random()
        value = settle(schemas.make(endpoint.schema, rng), rng, strict=roll >= 0.3)
        if roll < 0.3:
            yield Case("fits", "POST", endpoint.path, json.dumps(value).encode())
        elif roll < 0.8:
            yield _wrong(schemas, endpoint, value, rng)
        else:
            yield _rubbish(endpoint, value, paths, rng)


def settle(value: dict[str, Any], rng: Random, *, strict: bool) -> dict[str, Any]:
    """Keeps answers short, and takes out what no schema can judge: mostly, or with `strict` always,
    so that nothing but what is made wrong later can be wrong.
    """
    for key in _JUDGED_LATER:
        if strict or rng.random() < 0.9:
            value.pop(key, None)
    if value.get("max_tokens") is None:
        value["max_tokens"] = rng.randint(1, 8)
    if value.get("top_logprobs") and "messages" in value:
        value["logprobs"] = True
    if not value.get("stream"):
        value.pop("stream_options", None)
    if not value.get("tools"):
        value.pop("tool_choice", None)
    return value


def _wrong(schemas: Schemas, endpoint: Endpoint, value: dict[str, Any], rng: Random) -> Case:
    properties = _properties(schemas, endpoint, value)
    while True:
        field = rng.choice(sorted(properties))
        odd = rng.choice(_ODD)
        if schemas.wrong(properties[field], odd) is not None:
            break
    if field == "stream_options":
        value["stream"] = True
    body = json.dumps(value | {field: odd}).encode()
    return Case("wrong", "POST", endpoint.path, body, field)


def _properties(
    schemas: Schemas, endpoint: Endpoint, value: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """The properties of the variant that `value` fits."""
    schema = schemas.resolve(endpoint.schema)
    for variant in map(schemas.resolve, schema.get("anyOf", [schema])):
        if schemas.wrong(variant, value) is None:
            found: dict[str, dict[str, Any]] = variant["properties"]
            return found
    raise AssertionError(f"{value} fits nothing")


def _rubbish(endpoint: Endpoint, value: dict[str, Any], paths: list[str], rng: Random) -> Case:
    body = json.dumps(value, ensure_ascii=False).encode()
    kind = rng.randrange(8)
    if kind == 0:
        body = body[: rng.randrange(len(body) + 1)]
    elif kind == 1:
        at = rng.randrange(len(body))
        body = body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]
    elif kind == 2:
        body = rng.randbytes(rng.randrange(200))
    elif kind == 3:
        body = b'{"prompt": ' + b"[" * 3000 + b"]" * 3000 + b"}"
    elif kind == 4:
        body = b'{"prompt": "a", "prompt": "b", "messages": [], "messages": 1}'
    elif kind == 5:
        body = b'{"seed": ' + b"7" * rng.randrange(1, 6000) + b"}"
    elif kind == 6:
        text = "".join(chr(rng.choice((rng.randrange(0xD800), 0xD800))) for _ in range(8))
        body = json.dumps({"prompt": text, "messages": [{"role": text, "content": text}]}).encode()
    else:
        method, path = rng.choice(METHODS), rng.choice((*paths, "/", "/v1", "/%00", "/v1//models"))
        return Case("rubbish", method, path, body)
    return Case("rubbish", "POST", endpoint.path, body)
