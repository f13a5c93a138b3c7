"""From a model path to a loaded worker: the one place that knows both the engine and torch."""

from __future__ import annotations

from dataclasses import dataclass

from worker_svc.base import Sink
from worker_svc.engine.engine import Engine
from worker_svc.engine.options import EngineOptions
from worker_svc.model.identity import ModelFacts
from worker_svc.text.tokenizer import TextService


@dataclass(frozen=True, slots=True)
class LoadedWorker:
    """The engine's thread does not run yet: call `engine.start()`."""

    engine: Engine
    text: TextService
    facts: ModelFacts


def build_engine(
    model: str,
    options: EngineOptions,
    sink: Sink,
    *,
    dtype: str = "auto",
    revision: str = "",
    device: str = "cpu",
    max_context: int = 0,
    threads: int = 0,
    trust_remote_code: bool = False,
    self_check: bool = True,
) -> LoadedWorker:
    """Loads a model directory or hub name and checks that it can be served exactly.

    `dtype` "auto": float32 on CPU, the checkpoint's own elsewhere. `max_context` 0: what the
    model's config says. `threads` 0: torch's default. Takes seconds to minutes; raises `StartError`
    with one line, and `Unsupported` when the architecture cannot be served.
    """
    raise NotImplementedError
