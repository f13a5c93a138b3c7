"""What the HTTP front needs of the router: the contract between its handlers and everything behind
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cache_index.identity import ModelIdentity
from kvroute.v1 import router_pb2
from router_svc.pipeline import Write


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids of a prompt or chat (little-endian uint32 each), and the model they are for."""

    token_ids: bytes
    identity: ModelIdentity


@dataclass(frozen=True, slots=True)
class Flushed:
    """What one worker did about a flush. `error` is empty when it did it."""

    worker_id: str
    dropped_blocks: int = 0
    kept_blocks: int = 0
    error: str = ""


class Backend(Protocol):
    """Every method raises errors of `kvroute.errors` only; cancelling a call ends its work."""

    def new_record(self, request: router_pb2.GenerateRequest) -> router_pb2.Explain:
        """An empty explain record with the request's id."""

    async def generate(
        self,
        request: router_pb2.GenerateRequest,
        record: router_pb2.Explain,
        timeout_s: float,
        write: Write,
    ) -> None:
        """Serves the request; serialized `GenerateResponse` parts go through `write`."""

    async def tokenize(self, request: router_pb2.GenerateRequest, timeout_s: float) -> Tokens:
        """Token ids of the request's prompt or chat; nothing is generated."""

    async def detokenize(self, model: str, token_ids: bytes, timeout_s: float) -> str:
        """The text of token ids, as the model's own tokenizer decodes them."""

    def models(self) -> Sequence[ModelIdentity]:
        """Models that have a registered worker, by name."""

    def check_ready(self) -> None:
        """Raises `Unavailable`, saying why, while no model can be served."""

    async def flush_cache(self, timeout_s: float) -> Sequence[Flushed]:
        """Empties the caches of all workers of all models."""
