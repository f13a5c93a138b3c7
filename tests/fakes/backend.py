"""A backend of the HTTP front that does as it is told: parts, pauses, failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cache_index.identity import ModelIdentity
from kvroute.errors import KvrouteError
from kvroute.tokens import pack_tokens
from kvroute.v1 import common_pb2, router_pb2
from router_svc.http.app import serving
from router_svc.http.base import Flushed, Tokens
from router_svc.http.front import Front
from router_svc.http.limits import KeyLimits
from router_svc.pipeline import Write
from router_svc.settings import RouterSettings
from tests.fakes.worker import IDENTITY


@dataclass(slots=True)
class FakeBackend:
    """`texts` are one token each. `failure` comes after them; `gate`, if set, holds everything back
    until it opens.
    """

    texts: Sequence[str] = ("a", "b")
    failure: KvrouteError | None = None
    gate: asyncio.Event | None = None
    unready: KvrouteError | None = None
    flushed: Sequence[Flushed] = ()
    requests: list[router_pb2.GenerateRequest] = field(default_factory=list)
    in_flight: int = 0
    cancelled: int = 0

    def new_record(self, request: router_pb2.GenerateRequest) -> router_pb2.Explain:
        return router_pb2.Explain(request_id=request.request_id, router_id="r1")

    async def generate(
        self,
        request: router_pb2.GenerateRequest,
        record: router_pb2.Explain,
        timeout_s: float,
        write: Write,
    ) -> None:
        self.requests.append(request)
        self.in_flight += 1
        try:
            if self.gate is not None:
                await self.gate.wait()
            record.model, record.prompt_tokens = IDENTITY.served_name, 3
            for number, text in enumerate(self.texts):
                await write(self._part(number, text))
            if self.failure is not None:
                raise self.failure
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1

    def _part(self, number: int, text: str) -> bytes:
        part = router_pb2.GenerateResponse()
        output = part.outputs.add(text=text, token_ids=pack_tokens([number]))
        if number == len(self.texts) - 1 and self.failure is None:
            output.finish_reason = common_pb2.FINISH_REASON_STOP
            part.usage.prompt_tokens = 3
            part.usage.completion_tokens = len(self.texts)
        return part.SerializeToString()

    async def tokenize(self, request: router_pb2.GenerateRequest, timeout_s: float) -> Tokens:
        text = request.prompt or "".join(message.content for message in request.chat.messages)
        return Tokens(pack_tokens(list(text.encode())), IDENTITY)

    async def detokenize(self, model: str, token_ids: bytes, timeout_s: float) -> str:
        return token_ids.hex()

    def models(self) -> Sequence[ModelIdentity]:
        return [IDENTITY]

    def check_ready(self) -> None:
        if self.unready is not None:
            raise self.unready

    async def flush_cache(self, timeout_s: float) -> Sequence[Flushed]:
        return self.flushed


@asynccontextmanager
async def fronted(backend: FakeBackend, **settings: Any) -> AsyncIterator[str]:
    """An HTTP front before `backend`; yields its URL."""
    numbers = count(1)
    chosen = RouterSettings(**settings)
    front = Front(
        chosen,
        backend,
        new_id=lambda: f"{next(numbers):024x}",
        limits=KeyLimits(chosen.http_max_per_key),
    )
    async with serving(front, "127.0.0.1:0", drain_s=5.0) as address:
        yield f"http://{address}"
    front.limits.check()
    assert front.limits.open == 0
