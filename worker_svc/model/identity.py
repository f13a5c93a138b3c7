"""What a worker says of its model in the handshake."""

from __future__ import annotations

from worker_svc.loaded import ModelFacts
from worker_svc.model.loader import Loaded
from worker_svc.model.runner import ModelRunner
from worker_svc.text.tokenizer import TextService


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
