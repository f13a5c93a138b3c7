"""The least that a worker and a router need in Redis, as arguments of ACL SETUSER.

Functions run with the rights of their caller, so the commands inside count too. Both roles touch
keys `kvroute:*` only. In a Cluster add `CLUSTER_EXTRA`; a database other than 0 needs `+select`.

    ACL SETUSER kvroute-worker on >PASSWORD <rule("worker")>
"""

from __future__ import annotations

from typing import Literal

KEYS = "~kvroute:*"
CLUSTER_EXTRA = ("+cluster|slots", "+command", "+asking", "+readonly")

_BOTH = (
    "info",
    "function|load",
    "fcall",
    "time",
    "get",
    "getrange",
    "setrange",
    "del",
    "exists",
    "hget",
    "hset",
    "hdel",
    "hgetall",
    "hmget",
    "xadd",
)
_WORKER = (
    "hexists",
    "hincrby",
    "hsetnx",
    "pexpire",
    "sadd",
    "scard",
    "srem",
    "strlen",
)
_ROUTER = (
    "set",
    "sscan",
    "xread",
    "xrevrange",
    "zadd",
    "zcount",
    "zrangebyscore",
    "zrem",
    "zscore",
)


def rule(role: Literal["worker", "router"]) -> tuple[str, ...]:
    """Everything is taken first; then the role's commands, on our keys."""
    own = _WORKER if role == "worker" else _ROUTER
    return ("reset", "on", "resetchannels", KEYS, *(f"+{name}" for name in (*_BOTH, *own)))
