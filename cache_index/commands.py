"""The few plain Redis commands that the control plane uses, typed, in bytes, with RESP2 shapes.

redis-py types every reply as one of all forms that any protocol version and setting may produce;
ours are fixed by `redis_url.client_from_url`. All raise what redis-py raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import RedisClusterException, RedisError

RedisClient = Redis | RedisCluster
"""Standalone (also behind Sentinel), or Cluster."""

FAILURES = (RedisError, RedisClusterException, OSError)
"""What a call may raise when Redis does not answer, or not as it should; time-outs are OSErrors."""


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One entry of a stream."""

    entry_id: str
    fields: Mapping[bytes, bytes]


async def execute(client: RedisClient, *args: str | bytes | int | float) -> Any:
    """Any command; the reply as redis-py shapes it."""
    return await cast(Any, client).execute_command(*args)


async def get(client: RedisClient, key: str) -> bytes | None:
    return cast("bytes | None", await execute(client, "GET", key))


async def set_if_missing(client: RedisClient, key: str, value: str) -> None:
    await execute(client, "SET", key, value, "NX")


async def hash_get(client: RedisClient, key: str, field: str) -> bytes | None:
    return cast("bytes | None", await execute(client, "HGET", key, field))


async def hash_set(client: RedisClient, key: str, field: str, value: str) -> None:
    await execute(client, "HSET", key, field, value)


async def hash_set_if_missing(client: RedisClient, key: str, field: str, value: str) -> None:
    await execute(client, "HSETNX", key, field, value)


async def hash_all(client: RedisClient, key: str) -> dict[bytes, bytes]:
    return cast("dict[bytes, bytes]", await execute(client, "HGETALL", key))


async def set_scan(
    client: RedisClient, key: str, cursor: int, count: int
) -> tuple[int, Sequence[bytes]]:
    """One piece of a set's members, and the cursor of the next piece (0: that was the last)."""
    found, members = await execute(client, "SSCAN", key, cursor, "COUNT", count)
    return int(found), members


async def stream_read(
    client: RedisClient, key: str, after: str, count: int, block_ms: int | None
) -> list[StreamEntry]:
    """Entries behind `after`, waiting up to `block_ms` for the first; None: not at all."""
    wait = () if block_ms is None else ("BLOCK", block_ms)
    found = await execute(client, "XREAD", "COUNT", count, *wait, "STREAMS", key, after)
    return [stream_entry(entry) for entry in found[0][1]] if found else []


def stream_entry(raw: Any) -> StreamEntry:
    """From redis-py's (id, fields) pair; an entry deleted from under us has no fields."""
    entry_id, fields = raw
    return StreamEntry(entry_id.decode(), fields or {})


async def close(client: RedisClient) -> None:
    """Closes all connections, those to Sentinels too."""
    await client.aclose()
    pool = getattr(client, "connection_pool", None)
    for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
        await sentinel.aclose()
