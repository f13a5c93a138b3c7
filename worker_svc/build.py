"""From a model path to a loaded worker: the one place that knows both the engine and torch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kvroute.errors import StartError, Unsupported
from worker_svc.base import Sink
from worker_svc.demo_model import cache_directory
from worker_svc.engine.engine import Engine
from worker_svc.engine.options import EngineOptions
from worker_svc.loaded import LoadedWorker
from worker_svc.model.identity import facts_of
from worker_svc.model.loader import load
from worker_svc.model.prepare import Fast, prepare
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
    kernel: str = "auto",
) -> LoadedWorker:
    """Loads a model directory or hub name and checks that it is served exactly.

    `dtype` "auto": float32 on CPU, the checkpoint's own elsewhere. `max_context` 0: what the
    model's config says. `device` "auto": CUDA where there is one. `threads` 0: torch's default.
    `kernel`: "auto" takes the fastest that passes the check, "onednn" builds nothing, "torch"
    leaves the model as it is; all but the last are for CPUs. Takes seconds to minutes. Raises
    `StartError` with one line, or `Unsupported` when the architecture cannot be served.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if kernel not in _TIERS:
        raise StartError(f"kernel is {kernel!r}; it must be one of {', '.join(_TIERS)}")
    if threads:
        torch.set_num_threads(threads)
    refused: Unsupported | None = None
    for fast in _TIERS[kernel if device == "cpu" else "torch"]():
        loaded = load(
            model,
            dtype=dtype,
            revision=revision,
            device=device,
            trust_remote_code=trust_remote_code,
        )
        parameters = sum(weight.numel() for weight in loaded.model.parameters())
        try:
            prepared = prepare(loaded.model, max_context, fast=fast)
        except Unsupported as error:
            # The model may be fine without the swaps: these cannot be undone, so it is loaded
            # again.
            refused = error
            continue
        text = TextService(loaded.tokenizer)
        facts = facts_of(loaded, prepared, text, parameters)
        return LoadedWorker(Engine(prepared.runner, text, options, sink), text, facts)
    assert refused is not None
    raise refused


_TIERS: dict[str, Callable[[], tuple[Fast | None, ...]]] = {
    "auto": lambda: (Fast(cache_directory()), None),
    "onednn": lambda: (Fast(), None),
    "torch": lambda: (None,),
}
"""What to try, in order."""
