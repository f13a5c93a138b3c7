"""Checks before a fleet is started, so that a mistake is one line now and not a log file later."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from kvroute.errors import SettingsError, StartError


def split_address(address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT or [V6]:PORT. Raises SettingsError.

    >>> split_address("[::1]:50050")
    ('::1', 50050)
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{address!r} is not an address; it must be HOST:PORT")
    return host, int(port)


def require_free_port(listen: str) -> None:
    """Raises StartError when nothing can listen there: in use, not ours, not allowed."""
    host, port = split_address(listen)
    if port == 0:
        return
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, proto) as probe:
            # As the server does it, so that a port in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        why = "is in use" if "in use" in str(error) else f"cannot be used ({error.strerror})"
        raise StartError(
            f"{listen} {why}: stop what listens there, or give another --listen HOST:PORT"
        ) from None


def require_model(model: str) -> None:
    """Raises StartError for a path that is no model directory. Hub names pass; the hub knows."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise StartError(f"{model} holds no model: there is no config.json in it")
        return
    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") > 1
    if looks_like_path or os.sep != "/" and os.sep in model:
        raise StartError(
            f"there is no model directory {model}: give a directory or a hub name as --model, "
            "or leave --model out to use the demo model"
        )


async def require_redis(url: str, timeout_s: float = 3.0) -> None:
    """Raises StartError when no Redis or Valkey that is new enough answers at `url`."""
    from cache_index.redis_url import check_server, client_from_url

    client = client_from_url(url, timeout_s=timeout_s)
    try:
        await check_server(client, url)
    except StartError as error:
        hint = ", or leave --redis-url out to use the embedded Valkey"
        raise StartError(f"{error.message}{hint}", field="redis_url") from error
    finally:
        await client.aclose()
