"""Headers of a request that are ours, and those that go back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kvroute.errors import InvalidArgument
from kvroute.v1 import common_pb2, router_pb2
from router_svc.http.errors import REQUEST_ID_HEADER
from router_svc.validate import MAX_NAME

EXPLAIN_HEADER = "x-kvroute-explain"
_VISIBLE = re.compile(r"[\x21-\x7e]+")


def request_id(headers: Mapping[str, str], new: Callable[[], str]) -> str:
    """The client's id of its request, or a new one.

    Raises:
        InvalidArgument: it is too long or not made of visible ASCII characters.
    """
    given = headers.get(REQUEST_ID_HEADER)
    if not given:
        return new()
    if len(given) > MAX_NAME or not _VISIBLE.fullmatch(given):
        raise InvalidArgument(
            f"{REQUEST_ID_HEADER} must be 1 to {MAX_NAME} visible ASCII characters",
            field=REQUEST_ID_HEADER,
            limit=MAX_NAME,
        )
    return given


def bearer(headers: Mapping[str, str]) -> str:
    """The key of `Authorization: Bearer KEY`; empty without one."""
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def trace(headers: Mapping[str, str]) -> common_pb2.TraceContext | None:
    """W3C trace context, passed on as it is."""
    parent = headers.get("traceparent", "")
    if not parent or len(parent) > MAX_NAME:
        return None
    return common_pb2.TraceContext(
        traceparent=parent, tracestate=headers.get("tracestate", "")[:MAX_NAME]
    )


def explained(record: router_pb2.Explain) -> dict[str, str]:
    """Where a request went, what hit was predicted there and what it had (tokens)."""
    return {
        "x-kvroute-router": record.router_id,
        "x-kvroute-worker": record.worker_id,
        "x-kvroute-policy": record.policy,
        "x-kvroute-best-hit": str(record.best_hit),
        "x-kvroute-predicted-hit": str(record.chosen_hit),
        "x-kvroute-delivered-hit": str(record.delivered_hit),
    }
