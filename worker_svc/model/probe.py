"""Finds out what a model's layers keep per token, and refuses models whose attention does not pass
through us.

Configs do not say it reliably (head dims, windows per layer, shared heads), so a forward over three
tokens records every attention call. What the probe cannot see (positions taken from a cache,
state-space branches beside attention) is left to the self-check.
"""

from __future__ import annotations

from typing import Any

import torch

from kvroute.errors import Unsupported
from worker_svc.attention.paged import Call, PagedAttention
from worker_svc.attention.pool import LayerShape

_TOKENS = 3


def probe(model: Any, paged: PagedAttention) -> list[LayerShape]:
    """One shape per layer, in layer order. `paged` is the model's attention. Raises `Unsupported`
    with the reason.
    """
    paged.calls = []
    ids = torch.arange(1, _TOKENS + 1, device=model.device)[None]
    try:
        with torch.inference_mode():
            model(input_ids=ids, position_ids=ids - 1, use_cache=False)
    except Exception as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise Unsupported(f"{kind(model)} cannot be served: its forward fails ({text})") from error
    finally:
        calls, paged.calls = paged.calls or [], None
    reason = _refusal(model, calls)
    if reason:
        raise Unsupported(f"{kind(model)} cannot be served: {reason}")
    return [call.shape for call in sorted(calls, key=lambda call: call.layer)]


def kind(model: Any) -> str:
    """The model type for messages."""
    return f"model type {getattr(model.config, 'model_type', type(model).__name__)!r}"


def _refusal(model: Any, calls: list[Call]) -> str:
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    seen = sorted(call.layer for call in calls)
    if not calls:
        return "its attention does not go through transformers' attention registry"
    if len(set(seen)) != len(seen):
        return "a layer calls attention more than once"
    if seen != list(range(layers or 0)):
        return (
            f"attention was seen in {len(seen)} of {layers} layers"
            " (state-space, linear or own attention code in the others)"
        )
    for call in calls:
        if call.masked or call.biased:
            return f"layer {call.layer} adds a mask or position bias of its own (such as ALiBi)"
        if not call.causal:
            return f"layer {call.layer} is not causal"
        if call.tokens != _TOKENS:
            return f"layer {call.layer} has {call.tokens} keys for {_TOKENS} tokens"
    return ""
