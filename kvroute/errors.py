"""Every error that kvroute raises on purpose, and the gRPC and HTTP status each one becomes.

KvrouteError                INTERNAL             500
|- InvalidArgument          INVALID_ARGUMENT     400  a field of the request is wrong
|- NotFound                 NOT_FOUND            404  no such model, adapter, worker
|- Overloaded               RESOURCE_EXHAUSTED   429  a bounded queue is full; retry later
|- Unavailable              UNAVAILABLE          503  nobody can serve this right now
|- Mismatch                 FAILED_PRECONDITION  409  two processes do not fit together
|- Aborted                  ABORTED              409  somebody else changed it meanwhile
|- Expired                  DEADLINE_EXCEEDED    504  the client's deadline passed
|- Unsupported              UNIMPLEMENTED        501  known, but not served here
|- SettingsError            INVALID_ARGUMENT     400  wrong flags, environment or file
`- StartError               UNAVAILABLE          503  a service cannot start
"""

from __future__ import annotations

from typing import ClassVar

import grpc

from kvroute.v1 import common_pb2

ERROR_KEY = "kvroute-error-bin"
"""Trailing metadata key under which an error's `ErrorDetail` travels."""


class KvrouteError(Exception):
    """Base of the tree. `str(error)` is one line for a person: what is wrong, and what to do."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    http: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        value: object = "",
        limit: object = "",
        retry_after_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = str(value)[:200]
        self.limit = str(limit)
        self.retry_after_ms = retry_after_ms

    def detail(self) -> common_pb2.ErrorDetail:
        return common_pb2.ErrorDetail(
            field=self.field,
            value=self.value,
            limit=self.limit,
            retry_after_ms=self.retry_after_ms,
        )


class InvalidArgument(KvrouteError):
    """One field of a request is wrong.

    >>> str(InvalidArgument.of("sampling.temperature", -1, "0 or more"))
    'sampling.temperature is -1; it must be 0 or more'
    """

    code = grpc.StatusCode.INVALID_ARGUMENT
    http = 400

    @classmethod
    def of(cls, field: str, value: object, limit: object) -> InvalidArgument:
        shown = str(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        return cls(f"{field} is {shown}; it must be {limit}", field=field, value=value, limit=limit)


class NotFound(KvrouteError):
    code = grpc.StatusCode.NOT_FOUND
    http = 404


class Overloaded(KvrouteError):
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    http = 429


class Unavailable(KvrouteError):
    code = grpc.StatusCode.UNAVAILABLE
    http = 503


class Mismatch(KvrouteError):
    code = grpc.StatusCode.FAILED_PRECONDITION
    http = 409


class Aborted(KvrouteError):
    code = grpc.StatusCode.ABORTED
    http = 409


class Expired(KvrouteError):
    code = grpc.StatusCode.DEADLINE_EXCEEDED
    http = 504


class Unsupported(KvrouteError):
    code = grpc.StatusCode.UNIMPLEMENTED
    http = 501


class SettingsError(KvrouteError):
    code = grpc.StatusCode.INVALID_ARGUMENT
    http = 400


class StartError(KvrouteError):
    code = grpc.StatusCode.UNAVAILABLE
    http = 503


_BY_CODE: dict[grpc.StatusCode, type[KvrouteError]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        NotFound,
        Overloaded,
        Unavailable,
        Mismatch,
        Aborted,
        Expired,
        Unsupported,
    )
}
_BY_HTTP: dict[int, type[KvrouteError]] = {kind.http: kind for kind in _BY_CODE.values()}
_BY_NUMBER = {code.value[0]: kind for code, kind in _BY_CODE.items()}


def from_http(status: int, message: str) -> KvrouteError:
    """The error that an HTTP status stands for; `KvrouteError` for one without a class."""
    return _BY_HTTP.get(status, KvrouteError)(message)


def from_status(
    code: grpc.StatusCode | int, message: str, detail: common_pb2.ErrorDetail | None = None
) -> KvrouteError:
    """The error that a status stands for; `KvrouteError` for a code without a class of its own."""
    known = _BY_NUMBER if isinstance(code, int) else _BY_CODE
    kind = known.get(code, KvrouteError)
    found = detail or common_pb2.ErrorDetail()
    error: KvrouteError = kind(
        message,
        field=found.field,
        value=found.value,
        limit=found.limit,
        retry_after_ms=found.retry_after_ms,
    )
    return error
