"""What a worker says of its model in the handshake."""

from __future__ import annotations

from worker_svc.loaded import ModelFacts
from worker_svc.model.loader import Loaded
from worker_svc.model.prepare import Prepared
from worker_svc.text.tokenizer import TextService


def facts_of(loaded: Loaded, prepared: Prepared, text: TextService, parameters: int) -> ModelFacts:
    """Everything but names, which the settings choose. `parameters` were counted before any
    were packed.
    """
    runner = prepared.runner
    return ModelFacts(
        dtype=loaded.dtype,
        vocab_size=runner.vocab_size,
        max_context=runner.max_context,
        tokenizer=text.fingerprint(),
        chat_template=text.template_fingerprint(),
        revision=loaded.revision,
        architecture=str(loaded.model.config.model_type),
        parameters=parameters,
        kv_bytes_per_token=runner.kv_bytes_per_token,
        kernel=prepared.kernel,
    )
