"""From a model path to a loaded worker: the one place that knows both the engine and torch."""

from __future__ import annotations

import torch

from worker_svc.base import Sink
from worker_svc.engine.engine import Engine
from worker_svc.engine.options import EngineOptions
from worker_svc.loaded import LoadedWorker
from worker_svc.model.identity import facts_of
from worker_svc.model.loader import load
from worker_svc.model.runner import ModelRunner
from worker_svc.model.self_check import check_tokens, reference_logits, self_check
from worker_svc.text.tokenizer import TextService


def build_engine(
    model: str,
    options: EngineOptions,
    sink: Sink,
    *,
    dtype: str = "auto",
    revision: str = "",
    device: str = "auto",
    max_context: int = 0,
    threads: int = 0,
    trust_remote_code: bool = False,
) -> LoadedWorker:
    """Loads a model directory or hub name and checks that it is served exactly.

    `dtype` "auto": float32 on CPU, the checkpoint's own elsewhere. `max_context` 0: what the
    model's config says. `device` "auto": CUDA where there
    is one. `threads` 0: torch's default. Takes seconds to minutes. Raises `StartError`
    with one line, or `Unsupported` when the architecture cannot be served.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if threads:
        torch.set_num_threads(threads)
    loaded = load(
        model,
        dtype=dtype,
        revision=revision,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    text = TextService(loaded.tokenizer)
    ids = check_tokens(loaded.model)
    expected = reference_logits(loaded.model, ids)
    runner = ModelRunner(loaded.model, max_context)
    self_check(loaded.model, runner, ids, expected)
    facts = facts_of(loaded, runner, text)
    return LoadedWorker(Engine(runner, text, options, sink), text, facts)
