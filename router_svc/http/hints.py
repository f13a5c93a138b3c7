"""Re-use hints, in the words that clients of other services already send: `cache_control`
breakpoints, `prompt_cache_retention`, and our own `session_id` and `end_session`.
"""

from __future__ import annotations

from kvroute.errors import InvalidArgument
from kvroute.v1 import common_pb2
from router_svc.http.fields import Fields
from router_svc.validate import MAX_NAME

SESSION_HEADER = "x-session-id"

_RETENTIONS = {
    "none": common_pb2.CACHE_RETENTION_NONE,
    "in_memory": common_pb2.CACHE_RETENTION_SHORT,
    "in-memory": common_pb2.CACHE_RETENTION_SHORT,
    "24h": common_pb2.CACHE_RETENTION_LONG,
}
_TTLS = {
    "": common_pb2.CACHE_RETENTION_SHORT,
    "5m": common_pb2.CACHE_RETENTION_SHORT,
    "1h": common_pb2.CACHE_RETENTION_LONG,
}


def parse_hints(fields: Fields, session_header: str) -> common_pb2.ReuseHints:
    """Hints of the body as a whole; a `session_id` in the body wins over the header.

    Raises:
        InvalidArgument: naming the field.
    """
    named = _RETENTIONS.get(fields.choice("prompt_cache_retention", _RETENTIONS))
    retentions = [one for one in (named, cache_control(fields)) if one is not None]
    session = fields.text("session_id") or session_header
    if len(session) > MAX_NAME:
        raise InvalidArgument.of(
            "session_id", f"{len(session)} characters long", f"at most {MAX_NAME}"
        )
    return common_pb2.ReuseHints(
        retention=max(retentions, default=common_pb2.CACHE_RETENTION_UNSPECIFIED),
        session_id=session,
        end_session=fields.flag("end_session"),
    )


def cache_control(fields: Fields) -> common_pb2.CacheRetention | None:
    """The retention a `cache_control` of this object asks for; None without one."""
    control = fields.child("cache_control")
    if control is None:
        return None
    control.choice("type", ("ephemeral",))
    return _TTLS[control.choice("ttl", ("5m", "1h"))]
