"""Contestants that run in an environment of their own, behind a pipe."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvroute.bench.rivals import Missing, find_python
from worker_svc.bench.contestant import Clock

_GOODBYE_S = 30.0


class RivalFailed(Exception):
    """The rival ended, or never began; says its own last words."""


class Remote:
    """A script that answers {"prompts", "new_tokens"} with the seconds it took: `vllm_rival.py`."""

    def __init__(self, command: Sequence[str | Path], clock: Clock) -> None:
        """Returns when the rival is loaded. Raises RivalFailed, OSError."""
        self._clock = "cpu" if clock is time.process_time else "wall"
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        self._answer()

    def first_tokens(self, prompts: Sequence[list[int]]) -> float:
        return self._seconds(prompts, 1)

    def decode_rate(self, prompts: Sequence[list[int]], new_tokens: int) -> float:
        # The first call fills the rival's prefix cache, so that the other two prefill alike.
        self._seconds(prompts, 1)
        first = self._seconds(prompts, 1)
        whole = self._seconds(prompts, new_tokens) - first
        return len(prompts) * (new_tokens - 1) / max(whole, 1e-9)

    def close(self) -> None:
        """Ends the rival."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()

    def _seconds(self, prompts: Sequence[list[int]], new_tokens: int) -> float:
        assert self._process.stdin is not None
        asked = {"prompts": list(prompts), "new_tokens": new_tokens}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return float(self._answer()[self._clock])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
        code = self._process.wait()
        self._said.seek(0)
        said = self._said.read().strip().splitlines()
        self.close()
        raise RivalFailed(said[-1] if said else f"ended with exit code {code}")


class Vllm(Remote):
    """vLLM of `make compare-vllm`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        python = find_python("vllm")
        if isinstance(python, Missing):
            raise RivalFailed(python.reason)
        script = Path(__file__).with_name("vllm_rival.py")
        super().__init__((python, script, path), clock)
