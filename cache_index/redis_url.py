"""From one URL to a Redis client that our protocol can use."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from kvroute.errors import StartError

SCHEMES = ("redis", "rediss", "unix")
MINIMUM = (7, 0)
"""Redis 7.0 brought Functions; every Valkey has them."""


def client_from_url(url: str, *, timeout_s: float = 1.0) -> Redis:
    """A client for redis://, rediss:// (TLS) or unix:// that never retries by itself and answers in
    bytes.

    Connects on first use. Retries are ours to make: the protocol knows which calls may be repeated.
    Raises StartError for a URL that cannot be one.
    """
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise StartError(
            f"redis_url {masked(url)!r} has no known scheme; "
            "use redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH",
            field="redis_url",
            value=masked(url),
        )
    try:
        return Redis.from_url(
            url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            driver_info=None,
        )
    except ValueError as error:
        raise StartError(
            f"redis_url {masked(url)!r} is wrong: {error}", field="redis_url", value=masked(url)
        ) from error


def masked(url: str) -> str:
    """The URL without its password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", url)


async def check_server(client: Redis, url: str) -> None:
    """Raises StartError, in one line, unless a server answers that is new enough."""
    shown = masked(url)
    try:
        info = await client.info("server")
    except (AuthenticationError, NoPermissionError) as error:
        raise StartError(f"Redis at {shown} refuses this user: {error}; check the URL") from error
    except (RedisError, OSError) as error:
        raise StartError(
            f"Redis at {shown} does not answer ({error}); start it, or give another --redis-url"
        ) from error
    version = str(info.get("redis_version", "0"))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if "valkey_version" not in info and numbers < MINIMUM:
        raise StartError(f"Redis at {shown} is version {version}; 7.0 or newer is needed")
