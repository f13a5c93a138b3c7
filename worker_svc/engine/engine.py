"""The engine's thread: takes commands, steps the core, hands each step's report to the sink."""

from __future__ import annotations

from typing import Any

from worker_svc.base import EngineRequest, EngineStats, Sink
from worker_svc.engine.options import EngineOptions


class Engine:
    """Serves `worker_svc.base.EngineClient`. The sink is called from the engine's thread and must
    return at once.
    """

    def __init__(
        self, runner: Any, tokenizer: Any | None, options: EngineOptions, sink: Sink
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Starts the thread. Requests submitted before wait."""
        raise NotImplementedError

    def submit(self, request: EngineRequest) -> None:
        raise NotImplementedError

    def abort(self, request_id: int) -> None:
        raise NotImplementedError

    def flush_cache(self) -> None:
        raise NotImplementedError

    def stats(self) -> EngineStats:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError
