"""From one URL to a Redis client that our protocol can use.

    redis://[user:password@]host:port[/db]            one server; rediss:// with TLS
    unix://[user:password@]/path                      one server, by its socket
    redis+sentinel://[user:password@]host:port,host:port/service[/db]
    redis+cluster://[user:password@]host:port,host:port
                                                      rediss+sentinel, rediss+cluster with TLS

Options follow as a query (`?ssl_ca_certs=/path&ssl_certfile=..&ssl_keyfile=..`), named as redis-py
names them; `sentinel_username` and `sentinel_password` are for the sentinels themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio import Redis, Sentinel
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from cache_index.commands import FAILURES, RedisClient, execute
from kvroute.errors import StartError

PLAIN_SCHEMES = ("redis", "rediss", "unix")
MINIMUM = (7, 0)
"""Redis 7.0 brought Functions; every Valkey has them."""
_FORMS = (
    "redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH, "
    "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE or redis+cluster://HOST:PORT,HOST:PORT"
)
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class _Several:
    """A URL with several hosts, taken apart."""

    hosts: tuple[tuple[str, int], ...]
    path: tuple[str, ...]
    options: dict[str, Any]
    sentinel_options: dict[str, Any]


def client_from_url(url: str, *, timeout_s: float = 1.0) -> RedisClient:
    """A client that never retries by itself and answers in bytes.

    Connects on first use. Retries are ours to make: the protocol knows which calls may be repeated.
    `timeout_s` is for each reply, and for connecting. Raises StartError for a URL that cannot be
    one.
    """
    shown = masked(url)
    common: dict[str, Any] = {
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "driver_info": None,
    }
    try:
        parts = urlsplit(url)
        base, _, kind = parts.scheme.partition("+")
        if parts.scheme in PLAIN_SCHEMES:
            return Redis.from_url(url, **common)
        if base in ("redis", "rediss") and kind in ("sentinel", "cluster"):
            several = _several(parts, tls=base == "rediss")
            return _sentinel(several, common) if kind == "sentinel" else _cluster(several, common)
    except (ValueError, TypeError) as error:
        raise StartError(
            f"redis_url {shown!r} is wrong: {error}", field="redis_url", value=shown
        ) from error
    raise StartError(
        f"redis_url {shown!r} has no known scheme; use {_FORMS}", field="redis_url", value=shown
    )


def _several(parts: SplitResult, *, tls: bool) -> _Several:
    """Raises ValueError naming what is wrong."""
    user, _, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    options: dict[str, Any] = {"ssl": True} if tls else {}
    options |= {"username": unquote(name)} if name else {}
    options |= {"password": unquote(password)} if password else {}
    for key, value in parse_qsl(parts.query, strict_parsing=bool(parts.query)):
        options[key] = _BOOLEANS.get(value.lower(), value) if key.startswith("ssl_ch") else value
    prefix = "sentinel_"
    return _Several(
        hosts=tuple(_host(part) for part in hosts.split(",")),
        path=tuple(part for part in parts.path.split("/") if part),
        options={key: value for key, value in options.items() if not key.startswith(prefix)},
        sentinel_options={
            key.removeprefix(prefix): value
            for key, value in options.items()
            if key.startswith((prefix, "ssl"))
        },
    )


def _host(part: str) -> tuple[str, int]:
    host, colon, port = part.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"{part!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _sentinel(several: _Several, common: dict[str, Any]) -> Redis:
    if not several.path:
        raise ValueError("the service's name is missing behind the sentinels: /SERVICE")
    service, database = several.path[0], int("".join(several.path[1:]) or 0)
    sentinels = cast(Any, Sentinel)(
        several.hosts, sentinel_kwargs=common | several.sentinel_options
    )
    return cast(Redis, sentinels.master_for(service, db=database, **common, **several.options))


def _cluster(several: _Several, common: dict[str, Any]) -> RedisCluster:
    nodes = [ClusterNode(host, port) for host, port in several.hosts]
    return RedisCluster(startup_nodes=nodes, **common, **several.options)


def masked(url: str) -> str:
    """The URL without its passwords."""
    url = re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", url)
    return re.sub(r"(password=)[^&]*", r"\1***", url)


async def dedicated_connection(client: RedisClient, key: str, *, moved: bool) -> AbstractConnection:
    """A connection of its own, not of the pool, to whoever serves `key`; not connected yet.

    `moved`: the slot of `key` has left its node since the last call, ask the Cluster again.
    """
    if isinstance(client, RedisCluster):
        await client.initialize()
        if moved:
            # initialize() does nothing the second time: the old node would be asked for ever.
            await cast(Any, client.nodes_manager).initialize()
        node = client.get_node_from_key(key)
        if node is None:
            raise RedisError(f"no node of the Cluster serves {key}")
        return cast(AbstractConnection, node.connection_class(**node.connection_kwargs))
    return cast(AbstractConnection, cast(Any, client.connection_pool).make_connection())


async def check_server(client: RedisClient, url: str) -> None:
    """Raises StartError, in one line, unless a server answers that is new enough."""
    shown = masked(url)
    try:
        reply = await execute(client, "INFO", "server")
    except FAILURES as error:
        if _is_refusal(error):
            raise StartError(
                f"Redis at {shown} refuses this user: {error}; check the URL"
            ) from error
        raise StartError(
            f"Redis at {shown} does not answer ({error}); start it, or give another --redis-url"
        ) from error
    info = _fields(reply)
    version = info.get("redis_version", "0")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if "valkey_version" not in info and numbers < MINIMUM:
        raise StartError(f"Redis at {shown} is version {version}; 7.0 or newer is needed")


def _is_refusal(error: BaseException) -> bool:
    """redis-py may wrap a refused login into a plain connection error."""
    text = str(error).lower()
    return (
        isinstance(error, AuthenticationError | NoPermissionError)
        or "username-password" in text
        or "authentication required" in text
    )


def _fields(reply: Any) -> dict[str, str]:
    """INFO, which redis-py gives as text or parsed, and for a Cluster perhaps one per node."""
    if isinstance(reply, bytes | str):
        text = reply.decode() if isinstance(reply, bytes) else reply
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if "redis_version" in reply:
        return {str(key): str(value) for key, value in reply.items()}
    return next((_fields(node) for node in reply.values()), {})
