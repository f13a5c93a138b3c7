"""Errors as OpenAI clients expect them: `{"error": {"message", "type", "param", "code"}}`.

Clients retry 408, 409, 429 and 5xx by themselves, so what will not get better must be a 4xx of
another kind: a parameter that is known but not served (`Unsupported`) is a 400 here.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field

import grpc

from kvroute.errors import (
    InvalidArgument,
    KvrouteError,
    NotFound,
    Overloaded,
    Unavailable,
    Unsupported,
)

REQUEST_ID_HEADER = "x-request-id"
_INNER_FIELD = re.compile(r"^(sampling|chat)\.")
_PUBLIC = {
    "chat": "messages",
    "tools_json": "tools",
    "template_kwargs_json": "chat_template_kwargs",
}
_DEFAULT_RETRY_MS = 1000


class TooLarge(InvalidArgument):
    """The body is larger than the front takes."""

    http = 413


class BadPath(NotFound):
    """No such endpoint."""


class BadMethod(InvalidArgument):
    """The endpoint does not take this method."""

    http = 405


class Unauthorized(KvrouteError):
    """No credentials, or wrong ones."""

    code = grpc.StatusCode.UNAUTHENTICATED
    http = 401


class Forbidden(KvrouteError):
    """Not allowed for anybody, as this router is set up."""

    code = grpc.StatusCode.PERMISSION_DENIED
    http = 403


class SlowBody(InvalidArgument):
    """The client did not send its body in time."""

    http = 408


_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
_CODES: tuple[tuple[type[KvrouteError], str], ...] = (
    (TooLarge, "request_too_large"),
    (BadPath, "unknown_url"),
    (BadMethod, "method_not_allowed"),
    (SlowBody, "request_timeout"),
    (Unauthorized, "invalid_api_key"),
    (Forbidden, "forbidden"),
    (InvalidArgument, "invalid_value"),
    (Unsupported, "unsupported"),
    (Overloaded, "overloaded"),
    (Unavailable, "unavailable"),
)


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What goes over the wire for an error."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def error_answer(error: KvrouteError) -> ErrorAnswer:
    """Status, body and headers of `error`; 429 and 503 carry Retry-After (seconds, rounded up)."""
    status = status_of(error)
    headers = {}
    if status in (429, 503):
        retry_ms = error.retry_after_ms or _DEFAULT_RETRY_MS
        headers["Retry-After"] = str(max(1, math.ceil(retry_ms / 1000)))
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    return ErrorAnswer(status, error_body(error), headers)


def status_of(error: KvrouteError) -> int:
    return 400 if isinstance(error, Unsupported) else error.http


def error_body(error: KvrouteError) -> bytes:
    """The JSON alone: also the data of the event that ends a broken stream."""
    status = status_of(error)
    param = public_field(error.field)
    body = {
        "error": {
            "message": _public_message(error, param),
            "type": _TYPES.get(status, "server_error"),
            "param": param or None,
            "code": _code(error),
        }
    }
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def public_field(field: str) -> str:
    """The name an HTTP client knows a field of the protocol by.

    >>> public_field("sampling.top_p"), public_field("chat.messages[0].role")
    ('top_p', 'messages[0].role')
    """
    name = _INNER_FIELD.sub("", field)
    if name.startswith("token_ids"):
        return "prompt" + name.removeprefix("token_ids")
    return _PUBLIC.get(name, name)


def _public_message(error: KvrouteError, param: str) -> str:
    message = error.message
    if error.field and message.startswith(error.field):
        return param + message[len(error.field) :]
    return message


def _code(error: KvrouteError) -> str | None:
    if isinstance(error, NotFound) and error.field == "model":
        return "model_not_found"
    return next((code for kind, code in _CODES if isinstance(error, kind)), None)
