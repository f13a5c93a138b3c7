"""Control-plane processes under the test's thumb: start, pause, kill, and compare their states."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from cache_index.commands import close, execute
from cache_index.embedded import EmbeddedServer, leashed
from cache_index.ledger_codec import DEAD, unpack_state
from cache_index.names import Names
from cache_index.redis_url import client_from_url
from tests.fakes.fleet import MODEL

ROOT = Path(__file__).parents[2]
NAMES = Names.of(MODEL)
ANSWER_S = 20.0
CONVERGE_S = 20.0


@dataclass(slots=True)
class Child:
    """One process; `ask` sends a command and waits for its answer."""

    process: asyncio.subprocess.Process

    async def ask(self, command: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(command.encode() + b"\n")
        return await self.answer()

    async def answer(self) -> Any:
        assert self.process.stdout is not None
        async with asyncio.timeout(ANSWER_S):
            while True:
                line = await self.process.stdout.readline()
                if not line:
                    raise RuntimeError("the process died")
                if line.startswith((b"{", b'"')):  # Anything else is a log line.
                    return json.loads(line)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()
        await self.process.wait()


class ControlFleet:
    """`async with ControlFleet(server) as fleet`: workers and routers by name, all ended at the
    end.
    """

    def __init__(
        self, server: EmbeddedServer, *, lease_s: float = 0.5, audit_s: float = 0.1
    ) -> None:
        self.server = server
        self.lease_s, self.audit_s = lease_s, audit_s
        self.children: dict[str, Child] = {}
        self.client = client_from_url(server.url)
        self._seeds = count(1)

    async def __aenter__(self) -> ControlFleet:
        return self

    async def __aexit__(self, *_: object) -> None:
        for child in self.children.values():
            with contextlib.suppress(ProcessLookupError):
                child.signal(signal.SIGCONT)
            await child.kill()
        await close(self.client)

    async def start(self, *names: str) -> None:
        """Starts `w...` as workers and `r...` as routers, at once."""
        for name in names:
            self.children[name] = await self._spawn(name)
        for name in names:
            assert await self.children[name].answer() == "ready"

    async def _spawn(self, name: str) -> Child:
        role = "worker" if name.startswith("w") else "router"
        timing = (str(self.lease_s), *([str(self.audit_s)] if role == "router" else []))
        process = await asyncio.create_subprocess_exec(
            *leashed(Path(sys.executable)),
            *("-m", "tests.fakes.control_child", role, self.server.url, name),
            *(str(next(self._seeds)), *timing),
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=2**24,
        )
        return Child(process)

    async def kill(self, name: str) -> None:
        await self.children.pop(name).kill()

    async def all(self, command: str) -> dict[str, Any]:
        return {name: await child.ask(command) for name, child in self.children.items()}

    async def differences(self) -> str:
        """What keeps views, truths and ledger from being equal and empty; "" when all is well."""
        states = await self.all("state")
        workers = {name: state for name, state in states.items() if name.startswith("w")}
        for name, state in workers.items():
            if not state["synced"]:
                return f"{name} is not synced"
        truth = {
            name: {"epoch": state["epoch"], "blocks": state["blocks"]}
            for name, state in workers.items()
        }
        for name, state in states.items():
            if not name.startswith("r"):
                continue
            if state["stale"] or state["open"]:
                return f"{name} is stale, or still books"
            if state["workers"] != truth:
                wrong = [w for w in truth if state["workers"].get(w) != truth[w]]
                return f"view of {name} differs: {wrong or sorted(state['workers'])}"
        return await self._ledger()

    async def _ledger(self) -> str:
        try:
            keys = (NAMES.queues, NAMES.rows, NAMES.weights)
            queues, rows, weights = [await execute(self.client, "GET", key) or b"" for key in keys]
        except (RedisError, OSError) as error:
            return f"redis: {error}"
        for slot, load in unpack_state([queues, rows, weights, 0]).slots.items():
            if (load.queue_us, load.outstanding, load.tokens, load.blocks) != (0, 0, 0, 0):
                return f"slot {slot} is booked: {load}"
            if load.queue_us < 0 or load.queue_us >= DEAD:
                return f"slot {slot} is off: {load}"
        return ""

    async def converges(self) -> None:
        """All go quiet; then everything must become equal, and the ledger zero."""
        await self.all("quiet")
        loop = asyncio.get_running_loop()
        end = loop.time() + CONVERGE_S
        while difference := await self.differences():
            if loop.time() > end:
                raise AssertionError(difference)
            await asyncio.sleep(0.02)
