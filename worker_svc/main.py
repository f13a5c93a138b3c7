"""Builds the worker out of its parts and runs it until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from cache_index.base import WorkerId
from cache_index.fleet import WorkerDescription
from cache_index.identity import ModelIdentity
from cache_index.keys import SCHEME, check_vector
from cache_index.registration import Registration
from cache_index.tasks import end
from kvroute.log import configure
from kvroute.server import Health, bind, make_server, wait_for_signal, write_ready_file
from kvroute.v1 import worker_pb2_grpc
from worker_svc.base import CacheDelta, Sink
from worker_svc.edge import SERVICE, WorkerEdge
from worker_svc.engine.options import EngineOptions
from worker_svc.hub import Hub
from worker_svc.loaded import LoadedWorker
from worker_svc.settings import WorkerSettings

_LOAD_EVERY_S = 0.25
_US_PER_WAITING_TOKEN = 100
"""Only whether it is zero matters: an idle worker may clear leaked bookings (ledger, idle beats).
"""


Load = Callable[[WorkerSettings, Sink], LoadedWorker]


def load_model(settings: WorkerSettings, sink: Sink) -> LoadedWorker:
    """The real thing: torch and the model. Takes seconds; raises `StartError` in one line."""
    # Here, not above: a worker with another engine needs no torch.
    from worker_svc.build import build_engine
    from worker_svc.demo_model import DEMO_NAME, ensure_demo_model

    options = EngineOptions(
        blocks=settings.blocks,
        block_size=settings.block_size,
        max_batch_tokens=settings.max_batch_tokens,
        max_running=settings.max_running,
        max_queue=settings.max_queue,
        evictor=settings.evictor,
        look_ahead=settings.look_ahead,
        seed=settings.seed,
    )
    return build_engine(
        str(ensure_demo_model()) if settings.model == DEMO_NAME else settings.model,
        options,
        sink,
        dtype=settings.dtype,
        revision=settings.revision,
        device=settings.device,
        max_context=settings.max_context,
        threads=settings.threads,
        kernel=settings.kernel,
    )


class Worker:
    """The parts of one running worker, and the order in which they come up and go down."""

    def __init__(self, settings: WorkerSettings, load: Load | None = None) -> None:
        self.settings = settings
        self._load = load or load_model
        self.worker_id = settings.worker_id or f"w{secrets.token_hex(4)}"
        self._secret = settings.key_secret.encode()
        self._hub = Hub(self._secret, self._changed)
        self._registration: Registration | None = None
        self._edge: WorkerEdge | None = None
        self._log = structlog.get_logger().bind(worker=self.worker_id)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serves while the context is open; yields the address. Drains on the way out."""
        settings = self.settings
        server = make_server()
        health = Health(server, SERVICE)
        await health.set(False)
        address = bind(server, settings.listen)
        loaded = await asyncio.to_thread(self._load, settings, self._hub.report)
        identity = self._identity(loaded)
        text = loaded.text
        self._hub.attach(loaded.engine, identity, text.decode if text.available else None)
        registration = self._registration = Registration(
            settings.redis_url,
            worker=WorkerDescription(
                worker_id=WorkerId(self.worker_id),
                address=settings.advertise or address,
                identity=identity,
                total_blocks=settings.blocks,
            ),
            lease_s=settings.lease_s,
            flush_s=settings.flush_s,
        )
        edge = self._edge = WorkerEdge(
            self._hub,
            loaded.text,
            self.worker_id,
            lambda: registration.epoch,
            self.drain,
            settings.max_session_bytes,
        )
        worker_pb2_grpc.add_WorkerServicer_to_server(edge, server)
        loaded.engine.start()
        await server.start()
        try:
            await registration.start()
            async with _background(self._report_load(registration)):
                await health.set(True)
                write_ready_file(settings.ready_file, address)
                self._log.info("worker ready", address=address, model=identity.served_name)
                yield address
                await health.set(False)
                await self.drain(settings.drain_s)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await registration.stop()
            await server.stop(1.0)
            loaded.engine.stop()
            self._log.info("worker stopped")

    async def drain(self, grace_s: float) -> int:
        """Takes no new requests, waits for the running ones, then leaves the fleet. Returns how
        many were unfinished.
        """
        self._hub.draining = True
        if self._edge is not None:
            self._edge.announce_draining()
        assert self._registration is not None
        self._registration.set_draining(True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(grace_s) else grace_s):
                await self._hub.wait_idle()
        unfinished = self._hub.open_requests
        await self._registration.withdraw()
        return unfinished

    def _identity(self, loaded: LoadedWorker) -> ModelIdentity:
        settings, facts = self.settings, loaded.facts
        name = settings.served_name or Path(settings.model).name
        return ModelIdentity(
            served_name=name,
            model_id=name,
            revision=facts.revision,
            dtype=facts.dtype,
            block_size=settings.block_size,
            key_scheme=SCHEME,
            key_check=check_vector(self._secret),
            tokenizer=facts.tokenizer,
            chat_template=facts.chat_template,
            vocab_size=facts.vocab_size,
            max_context=facts.max_context,
        )

    def _changed(self, delta: CacheDelta) -> None:
        if self._registration is not None:
            self._registration.note(delta)

    async def _report_load(self, registration: Registration) -> None:
        while True:
            stats = self._hub.stats()
            registration.report_load(
                (stats.waiting_tokens + stats.waiting) * _US_PER_WAITING_TOKEN, stats.running
            )
            await asyncio.sleep(_LOAD_EVERY_S)


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `work` beside the context's body, and ends it with it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await end(task)


async def serve(settings: WorkerSettings) -> None:
    async with Worker(settings).running():
        await wait_for_signal()


def run(settings: WorkerSettings) -> None:
    """Blocks until SIGINT or SIGTERM."""
    configure(settings.log_level, "worker")
    asyncio.run(serve(settings))
