"""A worker without model and without Redis: the real gRPC edge around a fake engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cache_index.base import Epoch, WorkerId
from cache_index.fleet import WorkerRecord
from cache_index.identity import ModelIdentity
from cache_index.keys import SCHEME, check_vector
from kvroute.server import bind, make_server
from kvroute.v1 import worker_pb2_grpc
from tests.fakes.engine import VOCAB, FakeEngine, FakeText
from worker_svc.base import CacheDelta
from worker_svc.edge import WorkerEdge
from worker_svc.hub import Hub

IDENTITY = ModelIdentity(
    served_name="fake",
    model_id="fake",
    dtype="float32",
    block_size=16,
    key_scheme=SCHEME,
    key_check=check_vector(),
    vocab_size=VOCAB,
    max_context=8192,
)


@dataclass(slots=True)
class EdgeOnly:
    """What a test needs of a running edge."""

    record: WorkerRecord
    hub: Hub
    engine: FakeEngine
    edge: WorkerEdge
    deltas: list[CacheDelta]


@asynccontextmanager
async def edge_only(
    worker_id: str = "w1",
    *,
    identity: ModelIdentity = IDENTITY,
    listen: str = "127.0.0.1:0",
    step_s: float = 0.002,
) -> AsyncIterator[EdgeOnly]:
    deltas: list[CacheDelta] = []
    hub = Hub(b"", deltas.append)
    engine = FakeEngine(hub.report, step_s=step_s)
    hub.attach(engine, identity)

    async def drain(grace_s: float) -> int:
        hub.draining = True
        edge.announce_draining()
        await hub.wait_idle()
        return 0

    edge = WorkerEdge(hub, FakeText(), worker_id, lambda: 7, drain, 1 << 20)  # type: ignore[arg-type]
    server = make_server()
    worker_pb2_grpc.add_WorkerServicer_to_server(edge, server)
    address = bind(server, listen)
    engine.start()
    await server.start()
    record = WorkerRecord(
        worker_id=WorkerId(worker_id),
        address=address,
        epoch=Epoch(7),
        slot=0,
        seq=0,
        identity=identity,
        total_blocks=4096,
        draining=False,
        adapters=(),
    )
    try:
        yield EdgeOnly(record, hub, engine, edge, deltas)
    finally:
        await server.stop(0)
        engine.stop()
