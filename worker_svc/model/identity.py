"""What a worker says of its model in the handshake."""

from __future__ import annotations

from dataclasses import dataclass

from worker_svc.model.loader import Loaded
from worker_svc.model.runner import ModelRunner
from worker_svc.text.tokenizer import TextService


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`tokenizer` and `chat_template`: 16 hex digits each, or empty. `max_context`: prompt plus
    generated tokens.
    """

    dtype: str
    vocab_size: int
    max_context: int
    tokenizer: str
    chat_template: str
    revision: str
    architecture: str
    parameters: int
    kv_bytes_per_token: int


def facts_of(loaded: Loaded, runner: ModelRunner, text: TextService) -> ModelFacts:
    """Everything but names, which the settings choose."""
    return ModelFacts(
        dtype=loaded.dtype,
        vocab_size=runner.vocab_size,
        max_context=runner.max_context,
        tokenizer=text.fingerprint(),
        chat_template=text.template_fingerprint(),
        revision=loaded.revision,
        architecture=str(loaded.model.config.model_type),
        parameters=sum(weight.numel() for weight in loaded.model.parameters()),
        kv_bytes_per_token=runner.kv_bytes_per_token,
    )
