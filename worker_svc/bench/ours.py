"""kvroute's engine as a contestant: the engine as the gRPC edge drives it, thread included."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Sequence
from pathlib import Path

from cache_index.keys import KeySpace
from worker_svc.base import EngineRequest, Sampling, StepReport
from worker_svc.bench.contestant import Clock
from worker_svc.build import build_engine
from worker_svc.engine.options import EngineOptions

_BLOCKS = 1200
_PATIENCE_S = 600.0


class Ours:
    def __init__(self, path: Path, clock: Clock, kernel: str) -> None:
        self._clock = clock
        self._reports: queue.Queue[StepReport] = queue.Queue()
        options = EngineOptions(blocks=_BLOCKS)
        worker = build_engine(str(path), options, self._reports.put, kernel=kernel)
        self.kernel = worker.facts.kernel
        self._engine = worker.engine
        self._engine.start()
        self._ids = itertools.count(1)
        self._space = KeySpace("bench")

    def first_tokens(self, prompts: Sequence[list[int]]) -> float:
        began = self._clock()
        self._submit(prompts, 1)
        self._wait(len(prompts), 1)
        return self._clock() - began

    def decode_rate(self, prompts: Sequence[list[int]], new_tokens: int) -> float:
        # Cached prompts are admitted in one step: else the first ones end while the last still
        # wait.
        self.first_tokens(prompts)
        self._submit(prompts, new_tokens)
        counts = self._wait(len(prompts), 1)
        began = self._clock()
        made = sum(counts.values())
        self._wait(len(prompts), new_tokens, counts)
        return (sum(counts.values()) - made) / (self._clock() - began)

    def close(self) -> None:
        self._engine.stop()

    def _submit(self, prompts: Sequence[list[int]], new_tokens: int) -> None:
        sampling = Sampling(max_tokens=new_tokens, ignore_eos=True)
        for prompt in prompts:
            self._engine.submit(EngineRequest(next(self._ids), prompt, sampling, self._space))

    def _wait(
        self, requests: int, tokens: int, counts: dict[int, int] | None = None
    ) -> dict[int, int]:
        """Until each of `requests` has `tokens`; returns how many each has."""
        counts = {} if counts is None else counts
        while sum(count >= tokens for count in counts.values()) < requests:
            for output in self._reports.get(timeout=_PATIENCE_S).outputs:
                if output.finished is not None and output.finished.error is not None:
                    raise output.finished.error
                got = counts.get(output.request_id, 0) + len(output.token_ids)
                counts[output.request_id] = got
        return counts
