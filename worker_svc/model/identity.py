"""What a worker says of its model in the handshake."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`tokenizer` and `chat_template` are 16 hex digits each, or empty. `max_context`: prompt plus
    generated tokens.
    """

    dtype: str
    vocab_size: int
    max_context: int
    tokenizer: str
    chat_template: str
    revision: str = ""
    architecture: str = ""
    kv_bytes_per_token: int = 0
    parameters: int = 0
