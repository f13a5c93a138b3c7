"""Service processes of a test: started with a ready file, logs kept, ended whatever happens."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
START_S = 120.0
_numbers = itertools.count()


@dataclass(slots=True)
class Service:
    """One running process."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    address: str = ""
    http: str = ""
    """Address of the HTTP front, of a router that has one."""

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def stop(self) -> int:
        """SIGTERM, then SIGKILL after a generous wait. Returns the exit code."""
        if self.process.returncode is None:
            self.process.terminate()
            try:
                async with asyncio.timeout(30):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
        return await self.process.wait()


async def start(name: str, args: list[str], folder: Path, ready: Path) -> Service:
    """Starts `python ARGS` and waits for its ready file."""
    log = folder / f"{name}-{next(_numbers)}.log"
    ready.unlink(missing_ok=True)
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *args,
            stdout=out,
            stderr=out,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    service = Service(name, process, log)
    try:
        async with asyncio.timeout(START_S):
            while not ready.exists():
                if process.returncode is not None:
                    raise AssertionError(f"{name} ended at start:\n{log.read_text()[-3000:]}")
                await asyncio.sleep(0.01)
    except TimeoutError:
        process.kill()
        raise AssertionError(f"{name} did not start:\n{log.read_text()[-3000:]}") from None
    found = json.loads(ready.read_text())
    service.address, service.http = found["address"], found.get("http", "")
    return service


@dataclass(slots=True)
class Fleet:
    """Router and worker processes on one control plane, with short leases."""

    folder: Path
    redis_url: str
    lease_s: float
    services: list[Service]

    async def worker(self, worker_id: str, **fields: Any) -> Service:
        """A fake-model worker; `fields` as in `worker_main`."""
        ready = self.folder / f"{worker_id}.ready"
        settings = {
            "worker_id": worker_id,
            "redis_url": self.redis_url,
            "lease_s": self.lease_s,
            "ready_file": str(ready),
            **fields,
        }
        args = ["-m", "tests.fakes.worker_main", json.dumps(settings)]
        return await self._start(worker_id, args, ready)

    async def real_worker(self, worker_id: str, *args: str) -> Service:
        """A worker with a real model: `kvroute worker` with further arguments."""
        return await self._command("worker", worker_id, "--worker-id", worker_id, *args)

    async def router(self, name: str = "router", *args: str) -> Service:
        """`kvroute router` with further arguments."""
        return await self._command(
            "router", name, "--session-ttl-s", "0.5", "--audit-s", "0.1", *args
        )

    async def _command(self, command: str, name: str, *args: str) -> Service:
        ready = self.folder / f"{name}.ready"
        common = ["--redis-url", self.redis_url, "--lease-s", str(self.lease_s)]
        own = ["--listen", "127.0.0.1:0", "--ready-file", str(ready)]
        given = list(args)
        if "--listen" in given:
            own = own[2:]
        return await self._start(name, ["-m", "kvroute", command, *common, *own, *given], ready)

    async def _start(self, name: str, args: list[str], ready: Path) -> Service:
        service = await start(name, args, self.folder, ready)
        self.services.append(service)
        return service


@asynccontextmanager
async def fleet(folder: Path, redis_url: str, lease_s: float = 0.5) -> AsyncIterator[Fleet]:
    """Everything started in the context ends with it, routers first."""
    found = Fleet(folder, redis_url, lease_s, [])
    try:
        yield found
    finally:
        await asyncio.gather(*(service.stop() for service in reversed(found.services)))
