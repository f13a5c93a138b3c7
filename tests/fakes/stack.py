"""A whole kvroute in one event loop: workers around fake engines, a router, its HTTP front."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from router_svc.main import running
from router_svc.settings import RouterSettings
from tests.fakes.byte_model import ByteEngine, ByteText
from tests.fakes.engine import FakeEngine
from worker_svc.base import Sink
from worker_svc.loaded import LoadedWorker, ModelFacts
from worker_svc.main import Worker
from worker_svc.settings import WorkerSettings
from worker_svc.text.tokenizer import TextService

VOCAB, MAX_CONTEXT = 1000, 8192


@dataclass(slots=True)
class Stack:
    """Addresses of what runs, and the engines in it."""

    grpc: str
    http: str
    engines: list[FakeEngine] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.http}"


@asynccontextmanager
async def stack(
    folder: Path,
    redis_url: str,
    *,
    workers: int = 2,
    engine: Callable[..., FakeEngine] = ByteEngine,
    text: Callable[[], Any] = ByteText,
    fake: dict[str, Any] | None = None,
    **router: Any,
) -> AsyncIterator[Stack]:
    """`fake`: fields of the engine. `router`: fields of `RouterSettings`."""
    engines: list[FakeEngine] = []

    def load(settings: WorkerSettings, sink: Sink) -> LoadedWorker:
        made = engine(sink, blocks=settings.blocks, **(fake or {}))
        engines.append(made)
        facts = ModelFacts(
            dtype="float32",
            vocab_size=VOCAB,
            max_context=settings.max_context or MAX_CONTEXT,
            tokenizer="fake",
            chat_template="fake",
        )
        return LoadedWorker(made, cast(TextService, text()), facts)

    async with AsyncExitStack() as open_parts:
        for number in range(workers):
            settings = WorkerSettings(
                model="fake", redis_url=redis_url, worker_id=f"w{number}", lease_s=2.0, drain_s=5.0
            )
            await open_parts.enter_async_context(Worker(settings, load).running())
        ready = folder / "router.ready"
        address = await open_parts.enter_async_context(
            running(
                RouterSettings(
                    redis_url=redis_url,
                    listen="127.0.0.1:0",
                    http_listen="127.0.0.1:0",
                    lease_s=2.0,
                    ready_file=ready,
                    seed=1,
                    **router,
                )
            )
        )
        yield Stack(address, json.loads(ready.read_text())["http"], engines)
