"""The router behind the HTTP front: pipeline and fleets, seen as a `Backend`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from cache_index.identity import ModelIdentity
from kvroute.errors import KvrouteError, Unavailable
from kvroute.v1 import router_pb2
from router_svc.discovery import Fleets
from router_svc.flush import flush_worker
from router_svc.http.base import Flushed, Tokens
from router_svc.link import Link
from router_svc.pipeline import Pipeline, Write


class RouterBackend:
    """Thin: every method is one call of the pipeline or a look at the fleets."""

    def __init__(self, pipeline: Pipeline, fleets: Fleets) -> None:
        self._pipeline = pipeline
        self._fleets = fleets

    def new_record(self, request: router_pb2.GenerateRequest) -> router_pb2.Explain:
        return self._pipeline.new_record(request)

    async def generate(
        self,
        request: router_pb2.GenerateRequest,
        record: router_pb2.Explain,
        timeout_s: float,
        write: Write,
    ) -> None:
        await self._pipeline.generate(request, record, timeout_s, write)

    async def tokenize(self, request: router_pb2.GenerateRequest, timeout_s: float) -> Tokens:
        token_ids, identity = await self._pipeline.tokenize(request, timeout_s)
        return Tokens(token_ids, identity)

    async def detokenize(self, model: str, token_ids: bytes, timeout_s: float) -> str:
        return await self._pipeline.detokenize(model, token_ids, timeout_s)

    def models(self) -> Sequence[ModelIdentity]:
        found = []
        for fleet in self._fleets.all():
            try:
                found.append(fleet.identity)
            except KvrouteError:
                # Its workers have left or do not fit: nothing of it can be asked for.
                continue
        return found

    def check_ready(self) -> None:
        fleets = self._fleets.all()
        if not any(fleet.usable() for fleet in fleets):
            names = ", ".join(fleet.served_name for fleet in fleets) or "no model"
            raise Unavailable(f"no worker takes requests yet ({names})", retry_after_ms=1000)

    async def flush_cache(self, timeout_s: float) -> Sequence[Flushed]:
        links = [link for fleet in self._fleets.all() for link in fleet.links.values()]
        return await asyncio.gather(*(_flush(link, timeout_s) for link in links))


async def _flush(link: Link, timeout_s: float) -> Flushed:
    try:
        done = await flush_worker(link.address, timeout_s)
    except KvrouteError as error:
        return Flushed(link.worker_id, error=str(error))
    return Flushed(link.worker_id, done.dropped_blocks, done.kept_blocks)
