"""What every gRPC service of kvroute does alike: bind, health, reflection, ready file, signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kvroute.errors import StartError

_OPTIONS = (
    # Without this two processes share one port in silence, and each gets some of the connections.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)


def make_server(max_message_bytes: int = -1) -> grpc.aio.Server:
    """A server that takes messages of up to `max_message_bytes` (-1: any)."""
    return grpc.aio.server(
        options=(
            *_OPTIONS,
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", -1),
        )
    )


def bind(server: grpc.aio.Server, listen: str) -> str:
    """Binds HOST:PORT and returns it with the port that was taken.

    Raises:
        StartError: the address is malformed or in use.
    """
    host, separator, port = listen.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise StartError(
            f"cannot listen on {listen!r}: give HOST:PORT, for example 127.0.0.1:50050"
        )
    try:
        taken = server.add_insecure_port(listen)
    except RuntimeError:
        taken = 0
    if not taken:
        raise StartError(
            f"cannot listen on {listen}: the port is in use or the address is not this machine's; "
            "choose another with --listen HOST:PORT (port 0 takes any)"
        )
    return f"{host}:{taken}"


class Health:
    """Standard gRPC health: the server's own name ("") and one service go up and down together."""

    def __init__(self, server: grpc.aio.Server, service: str) -> None:
        self._service = service
        self._servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        names = (service, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)

    async def set(self, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.ServingStatus
        value = status.SERVING if serving else status.NOT_SERVING
        for name in ("", self._service):
            await self._servicer.set(name, value)


def write_ready_file(path: Path | None, address: str, http: str = "") -> None:
    """Tells whoever started this process where it listens; complete once it exists. `http`: the
    address of a second, HTTP front.
    """
    if path is None:
        return
    found = {"address": address, "pid": os.getpid()} | ({"http": http} if http else {})
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(found))
    partial.replace(path)


async def wait_for_signal(
    signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM),
) -> None:
    """Returns at the first of `signals`. Later ones do nothing: an orderly end is under way."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    for number in signals:
        loop.add_signal_handler(number, came.set)
    await came.wait()
    for number in signals:
        # Also once the loop is closed, when Python would put the default back: the process would
        # end in the middle of its orderly end.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
