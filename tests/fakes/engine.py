"""An engine without a model: real threads, real block keys, tokens that are a function of the
prompt.

It serves `worker_svc.base.EngineClient`, so a worker built around it is real from the gRPC edge to
Redis.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cache_index.base import BlockKey
from kvroute.tokens import pack_tokens
from worker_svc.base import (
    Admitted,
    CacheDelta,
    EngineRequest,
    EngineStats,
    Finished,
    Output,
    Sink,
    StepReport,
)

VOCAB = 1000


def next_token(tokens: Sequence[int]) -> int:
    """The token that follows; depends on every token before it, so a wrong resume shows at once."""
    digest = hashlib.sha256(pack_tokens(tokens)).digest()
    return 1 + int.from_bytes(digest[:4], "little") % (VOCAB - 1)


def expected(prompt: Sequence[int], count: int) -> list[int]:
    """What the fake model generates behind `prompt`."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


@dataclass(slots=True)
class _Run:
    request: EngineRequest
    tokens: list[int]
    arrived: float
    hit: int = 0
    admitted: bool = False
    wait: float = 0.0
    generated: int = field(default=0)


class FakeEngine:
    """One token per step and request; prefill takes `ms_per_token` of each missing prompt token,
    one prompt at a time.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        step_s: float = 0.002,
        ms_per_token: float = 0.0,
        blocks: int = 4096,
    ) -> None:
        self._sink = sink
        self._step_s = step_s
        self._ms_per_token = ms_per_token
        self._blocks = blocks
        self._lock = threading.Condition()
        self._waiting: OrderedDict[int, _Run] = OrderedDict()
        self._running: OrderedDict[int, _Run] = OrderedDict()
        self._aborted: set[int] = set()
        self._cache: OrderedDict[BlockKey, None] = OrderedDict()
        self._flush = False
        self._stopped = False
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self.steps = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._lock.notify()
        if self._thread.is_alive():
            self._thread.join(5)

    def submit(self, request: EngineRequest) -> None:
        with self._lock:
            self._waiting[request.request_id] = _Run(
                request, list(request.tokens), time.monotonic()
            )
            self._lock.notify()

    def abort(self, request_id: int) -> None:
        with self._lock:
            self._aborted.add(request_id)
            self._lock.notify()

    def flush_cache(self) -> None:
        with self._lock:
            self._flush = True
            self._lock.notify()

    def stats(self) -> EngineStats:
        with self._lock:
            return EngineStats(
                waiting=len(self._waiting),
                running=len(self._running),
                cached_blocks=len(self._cache),
                free_blocks=self._blocks - len(self._cache),
                total_blocks=self._blocks,
                steps=self.steps,
            )

    def _loop(self) -> None:
        while True:
            with self._lock:
                while not (
                    self._stopped or self._waiting or self._running or self._aborted or self._flush
                ):
                    self._lock.wait()
                if self._stopped:
                    return
                report = self._step()
            time.sleep(self._step_s)
            self._sink(report)

    def _step(self) -> StepReport:
        self.steps += 1
        outputs: list[Output] = []
        stored: list[BlockKey] = []
        flushed, self._flush = self._flush, False
        if flushed:
            self._cache.clear()
        for request_id in self._aborted:
            found = self._waiting.pop(request_id, None) or self._running.pop(request_id, None)
            if found is not None:
                outputs.append(Output(request_id, finished=Finished("cancelled")))
        self._aborted.clear()
        if self._waiting:
            request_id, run = self._waiting.popitem(last=False)
            outputs.append(self._admit(run, stored))
            self._running[request_id] = run
        for request_id, run in list(self._running.items()):
            outputs.append(self._decode(run))
            if outputs[-1].finished is not None:
                del self._running[request_id]
        return StepReport(tuple(outputs), CacheDelta(tuple(stored), (), flushed))

    def _admit(self, run: _Run, stored: list[BlockKey]) -> Output:
        request = run.request
        keys = request.space.keys(pack_tokens(run.tokens))
        size = request.space.block_size
        limit = (len(run.tokens) - 1) // size
        for key in keys[:limit]:
            if key not in self._cache:
                break
            run.hit += size
        time.sleep(self._ms_per_token * (len(run.tokens) - run.hit) / 1000.0)
        for key in keys:
            if key not in self._cache:
                self._cache[key] = None
                stored.append(key)
        run.admitted = True
        queue_ms = (time.monotonic() - run.arrived) * 1000.0
        return Output(request.request_id, admitted=Admitted(run.hit, queue_ms))

    def _decode(self, run: _Run) -> Output:
        request = run.request
        token = next_token(run.tokens)
        run.tokens.append(token)
        run.generated += 1
        done = run.generated + request.resumed_tokens >= request.sampling.max_tokens
        prompt = len(request.tokens) - request.resumed_tokens
        finished = None
        if done:
            finished = Finished(
                "length",
                prompt_tokens=prompt,
                cached_tokens=min(run.hit, prompt),
                completion_tokens=run.generated + request.resumed_tokens,
                prefill_ms=1.0 + self._ms_per_token * (prompt - run.hit),
                decode_ms=self._step_s * 1000.0 * run.generated,
                step_ms=self._step_s * 1000.0,
                batch_size=1.0,
            )
        return Output(request.request_id, f"{token} ", (token,), finished=finished)


class FakeText:
    """A tokenizer of words that are numbers."""

    available = True

    def encode(self, text: str) -> list[int]:
        return [int(word) % VOCAB for word in text.split()]

    def decode(self, token_ids: Sequence[int]) -> str:
        return " ".join(map(str, token_ids))

    def encode_chat(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        template_kwargs: Any = None,
    ) -> list[int]:
        return [1, *self.encode(" ".join(message["content"] for message in messages))]
