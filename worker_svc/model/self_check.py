"""Load-time proof that the paged path computes what the model computes.

The probe cannot see everything: BART-style decoders take positions from the cache's length, some
hybrids run a state-space branch beside attention; both would be served silently wrong. So random
tokens go once through the model's stock attention in one piece, and once through the pool in three
chunks and a few single tokens; the logits must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from kvroute.errors import Unsupported
from worker_svc.base import Sampling
from worker_svc.engine.base import Pick, Row
from worker_svc.model.probe import kind
from worker_svc.model.runner import ModelRunner

_CHUNKS = (21, 17, 18)
_DECODES = 5
_LONGEST = 400
"""Windows longer than this are not exercised: it would cost too much at load."""
_BLOCK = 16
_TOLERANCE = {torch.float32: 2e-3, torch.float64: 2e-3}
_LOW_PRECISION = 6e-2


def reference_logits(model: Any, ids: list[int]) -> torch.Tensor:
    """(tokens, vocab) float32 by the model's attention as it is set now."""
    tokens = torch.tensor([ids], device=model.device)
    with torch.inference_mode():
        return model(input_ids=tokens, use_cache=False).logits[0].float()


def check_tokens(model: Any) -> list[int]:
    """Random but fixed tokens, long enough to pass every short window in the config."""
    text = model.config.get_text_config()
    window = getattr(text, "sliding_window", None) or 0
    count = sum(_CHUNKS) + _DECODES + (window if window <= _LONGEST else 0)
    vocab = model.get_input_embeddings().weight.shape[0]
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, vocab, (count,), generator=generator).tolist()


def self_check(model: Any, runner: ModelRunner, ids: list[int], expected: torch.Tensor) -> float:
    """Relative error of the paged path. Raises `Unsupported` when it is too large.

    `expected` are the `reference_logits` of `ids`, taken before the runner replaced the attention.
    Uses a small pool of its own: call `runner.allocate` afterwards.
    """
    runner.allocate(-(-len(ids) // _BLOCK), _BLOCK)
    # Not in order, so that a block table read wrongly shows.
    table = list(range(-(-len(ids) // _BLOCK)))[::-1]
    worst = 0.0
    try:
        for start, end in _pieces(len(ids)):
            pick = Pick(Sampling(), ids[:end], end, frozenset())
            row = Row(ids[start:end], start, table, pick)
            found = runner.logits([row])[0]
            wanted = expected[end - 1]
            scale = wanted.abs().max().clamp_min(1e-6)
            error = float((found - wanted).abs().max() / scale)
            worst = max(worst, error) if error == error else float("inf")
    except Exception as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise Unsupported(
            f"{kind(model)} cannot be served: its paged forward fails ({text})"
        ) from error
    limit = _TOLERANCE.get(model.dtype, _LOW_PRECISION)
    if not worst <= limit:
        raise Unsupported(
            f"{kind(model)} cannot be served: with paged attention its logits are wrong"
            f" (relative error {worst:.2g}, at most {limit:g} is rounding)"
        )
    return worst


def _pieces(total: int) -> Iterator[tuple[int, int]]:
    """Three chunks, the last one taking what a window added, then single tokens."""
    prefill = total - _DECODES
    first, second = _CHUNKS[0], _CHUNKS[0] + _CHUNKS[1]
    yield 0, first
    yield first, second
    yield second, prefill
    for at in range(prefill, total):
        yield at, at + 1
