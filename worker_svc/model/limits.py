"""What a model's config says about lengths and end tokens, made safe for packed batches."""

from __future__ import annotations

from typing import Any

_FALLBACK = 2048
"""Configs without any length (some rotary models)."""


def context_limit(config: Any) -> int:
    """Positions that can be served exactly.

    Capped where the model changes with the longest position of a batch, for sequences packed
    together would influence each other: longrope switches its factors behind the original length,
    and Llama 4 attends in chunks through a mask that never reaches our attention.
    """
    text = config.get_text_config()
    limit = next(
        (
            int(value)
            for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
            if isinstance(value := getattr(text, name, None), int) and value > 0
        ),
        _FALLBACK,
    )
    scaling = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    rope_type = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else None
    original = getattr(text, "original_max_position_embeddings", None)
    if isinstance(scaling, dict):
        original = scaling.get("original_max_position_embeddings", original)
    if rope_type in ("longrope", "dynamic") and original:
        limit = min(limit, int(original))
    chunk = getattr(text, "attention_chunk_size", None)
    if chunk:
        limit = min(limit, int(chunk))
    return limit


def end_tokens(model: Any) -> frozenset[int]:
    """The end-of-text tokens that `generate` would stop at."""
    generation = getattr(model, "generation_config", None)
    found = getattr(generation, "eos_token_id", None)
    if found is None:
        found = getattr(model.config.get_text_config(), "eos_token_id", None)
    if found is None:
        return frozenset()
    return frozenset(int(token) for token in (found if isinstance(found, list) else [found]))
