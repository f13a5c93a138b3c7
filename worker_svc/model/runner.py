"""Steps a stock transformers model over the paged pool."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from worker_svc.attention.paged import PagedAttention
from worker_svc.attention.pool import PagedPool
from worker_svc.attention.step import Inputs, pack
from worker_svc.engine.base import Row, RowResult
from worker_svc.fast.attention import NativeAttention
from worker_svc.fast.library import open_library
from worker_svc.fast.optimize import SMALLEST, Swapped, optimize
from worker_svc.model.limits import context_limit, end_tokens
from worker_svc.model.probe import probe
from worker_svc.sampling.sampler import choose


class ModelRunner:
    """Serves `worker_svc.engine.base.Runner`. The model's attention implementation is replaced for
    good.
    """

    def __init__(self, model: Any, max_context: int = 0) -> None:
        """`max_context` 0: what the model can do. Raises `Unsupported` when the attention does not
        fit.
        """
        self._model = model.eval()
        self.paged = PagedAttention()
        limit = context_limit(model.config)
        self._max_context = min(limit, max_context) if max_context else limit
        self._eos = end_tokens(model)
        model.set_attn_implementation(self.paged.name)
        self.layers = probe(model, self.paged)
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    @property
    def vocab_size(self) -> int:
        return int(self._model.get_input_embeddings().weight.shape[0])

    @property
    def max_context(self) -> int:
        return self._max_context

    @property
    def eos(self) -> frozenset[int]:
        return self._eos

    @property
    def kv_bytes_per_token(self) -> int:
        return sum(layer.values_per_token for layer in self.layers) * self._model.dtype.itemsize

    def speed_up(self, cache: Path | None, smallest: int = SMALLEST) -> Swapped:
        """Swaps linears, norms and attention for faster ones; `cache`: where native
        kernels are built and kept.

        None: no native kernels. Does nothing unless the model is float32 on CPU. Check the model
        afterwards.
        """
        model = self._model
        if model.dtype != torch.float32 or model.device.type != "cpu":
            return Swapped("torch")
        library = None if cache is None else open_library(cache)

        def forward() -> None:
            probe(model, self.paged)

        swapped = optimize(model, forward, library, smallest)
        if library is not None:
            self.paged.kernel = NativeAttention(library)
        return swapped

    def allocate(self, blocks: int, block_size: int) -> None:
        self.paged.pool = None
        model = self._model
        self.paged.pool = PagedPool(self.layers, blocks, block_size, model.dtype, model.device)

    def run(self, rows: Sequence[Row]) -> list[RowResult]:
        found = self.logits(rows)
        picks = [row.pick for row in rows if row.pick is not None]
        chosen = iter(choose(found, picks) if picks else ())
        return [None if row.pick is None else next(chosen) for row in rows]

    def logits(self, rows: Sequence[Row]) -> torch.Tensor:
        """(rows that pick, vocab) float32; a single unused row when none does."""
        pool = self.paged.pool
        assert pool is not None, "allocate first"
        inputs = pack(rows, pool.block_size, self._model.device)
        with torch.inference_mode():
            return self._forward(inputs).float()

    def scrub(self, blocks: Sequence[int]) -> None:
        pool = self.paged.pool
        assert pool is not None, "allocate first"
        with torch.inference_mode():
            pool.scrub(blocks)

    def _forward(self, inputs: Inputs) -> torch.Tensor:
        self.paged.step = inputs.step
        # A tensor of rows: the output layer runs on the few rows that are sampled, not on all
        # tokens.
        keep = {"logits_to_keep": inputs.last} if self._keeps else {}
        logits: torch.Tensor = self._model(
            input_ids=inputs.ids[None],
            position_ids=inputs.positions[None],
            use_cache=False,
            **keep,
        ).logits[0]
        self.paged.step = None
        if self._keeps and logits.shape[0] == inputs.last.shape[0]:
            return logits
        return logits[inputs.last]
