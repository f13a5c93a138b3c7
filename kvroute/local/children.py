"""One service as a child process that says when it is ready, and why it ended.

A child runs `python -m kvroute ARGS --ready-file FILE --leash`. It writes FILE once it serves, its
output goes to a log file, and it ends when this process ends (`kvroute.cli.leash`). It has a
process group of its own, so that Ctrl-C reaches only the parent, which then ends all in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvroute.errors import StartError

POLL_S = 0.05
GRACE_S = 15.0
"""Seconds for an orderly end. Routers let running requests finish for 10."""

PROGRAM = (sys.executable, "-m", "kvroute")


@dataclass(frozen=True, slots=True)
class Ready:
    """What a service writes in its ready file."""

    address: str
    pid: int


class Child:
    """One child process. `start` once; end with `stop`, which is idempotent, whatever happened."""

    def __init__(
        self,
        name: str,
        args: Sequence[str],
        folder: Path,
        program: Sequence[str] = PROGRAM,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`env` is added to this process's environment: for what no process list should show."""
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = (*program, *args)
        self._env = {**os.environ, **(env or {})}
        # Private, so that two fleets with one log folder cannot read each other's addresses.
        self._run = tempfile.TemporaryDirectory(prefix="kvroute-", ignore_cleanup_errors=True)
        self._ready_file = Path(self._run.name) / "ready"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Starts the process; its log from an earlier run is dropped."""
        command = [*self._command, "--ready-file", str(self._ready_file), "--leash"]
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )

    async def ready(self, timeout_s: float) -> Ready:
        """Waits until the service serves. Raises StartError if it ends or is too slow."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if (found := read_ready(self._ready_file)) is not None:
                        return found
                    if not self.running:
                        raise StartError(f"{self.name} did not start: {self.reason()}")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise StartError(
                f"{self.name} was not ready after {timeout_s:g} s; its log is {self.log}"
            ) from None

    def reason(self) -> str:
        """Why the process ended, in one line, as far as its log tells."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        code = None if self._process is None else self._process.returncode
        return last_words(text) or f"it ended with exit code {code}; its log is {self.log}"

    async def ended(self) -> None:
        """Returns when the process has ended."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """SIGTERM, then SIGKILL after `grace_s`. Returns when the process is gone."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(grace_s):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        self._run.cleanup()


def read_ready(file: Path) -> Ready | None:
    """The content of a ready file; None while it is absent or half written."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return Ready(str(content["address"]), int(content["pid"]))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def last_words(log: str) -> str:
    """The last one-line error in a log; without one its last line; empty for an empty log.

    >>> last_words("starting\\nkvroute: port 5 is in use\\n{\\"event\\": \\"bye\\"}\\n")
    'port 5 is in use'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith("kvroute: "):
            return line.removeprefix("kvroute: ")
    return lines[-1][:300] if lines else ""
