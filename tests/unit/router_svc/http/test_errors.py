"""Errors in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvroute import errors
from router_svc.http.errors import (
    BadMethod,
    BadPath,
    Forbidden,
    SlowBody,
    TooLarge,
    Unauthorized,
    error_answer,
    public_field,
)


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (errors.InvalidArgument("x"), 400, "invalid_request_error", "invalid_value"),
        (errors.Unsupported("x"), 400, "invalid_request_error", "unsupported"),
        (Unauthorized("x"), 401, "authentication_error", "invalid_api_key"),
        (Forbidden("x"), 403, "permission_error", "forbidden"),
        (BadPath("x"), 404, "not_found_error", "unknown_url"),
        (errors.NotFound("x", field="model"), 404, "not_found_error", "model_not_found"),
        (BadMethod("x"), 405, "invalid_request_error", "method_not_allowed"),
        (SlowBody("x"), 408, "invalid_request_error", "request_timeout"),
        (TooLarge("x"), 413, "invalid_request_error", "request_too_large"),
        (errors.Overloaded("x"), 429, "rate_limit_error", "overloaded"),
        (errors.KvrouteError("x"), 500, "server_error", None),
        (errors.Unavailable("x"), 503, "server_error", "unavailable"),
        (errors.Expired("x"), 504, "server_error", None),
    ],
)
def test_status_type_and_code(
    error: errors.KvrouteError, status: int, kind: str, code: str | None
) -> None:
    answer = error_answer(error)
    body: dict[str, Any] = json.loads(answer.body)["error"]
    assert (answer.status, body["type"], body["code"]) == (status, kind, code)
    assert body["message"] == "x"
    assert ("Retry-After" in answer.headers) == (status in (429, 503))


def test_retry_after_is_whole_seconds_rounded_up() -> None:
    answer = error_answer(errors.Overloaded("x", retry_after_ms=1200))
    assert answer.headers["Retry-After"] == "2"


@pytest.mark.parametrize(
    ("inner", "public"),
    [
        ("sampling.max_tokens", "max_tokens"),
        ("chat.messages[1].role", "messages[1].role"),
        ("token_ids[3]", "prompt[3]"),
        ("chat", "messages"),
        ("chat.tools_json", "tools"),
        ("model", "model"),
        ("", ""),
    ],
)
def test_fields_of_the_protocol_get_their_http_names(inner: str, public: str) -> None:
    assert public_field(inner) == public


def test_the_message_names_the_public_field() -> None:
    error = errors.InvalidArgument.of("sampling.top_k", 9, "less")
    body = json.loads(error_answer(error).body)["error"]
    assert body["message"] == "top_k is 9; it must be less"
    assert body["param"] == "top_k"
