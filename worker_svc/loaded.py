"""A worker's loaded model, as its services see it: no torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker_svc.base import EngineClient

if TYPE_CHECKING:
    from worker_svc.text.tokenizer import TextService


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a worker says of its model in the handshake.

    `tokenizer` and `chat_template`: 16 hex digits each, or empty. `max_context`: prompt plus
    generated tokens. `kernel`: the CPU speed tier that passed the load-time check.
    """

    dtype: str
    vocab_size: int
    max_context: int
    tokenizer: str = ""
    chat_template: str = ""
    revision: str = ""
    architecture: str = ""
    parameters: int = 0
    kv_bytes_per_token: int = 0
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class LoadedWorker:
    """The engine's thread does not run yet: call `engine.start()`."""

    engine: EngineClient
    text: TextService
    facts: ModelFacts
