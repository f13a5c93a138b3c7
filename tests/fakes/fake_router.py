"""A router that answers at once with fixed words, for tests of clients and commands."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from kvroute.errors import ERROR_KEY, KvrouteError
from kvroute.tokens import pack_tokens
from kvroute.v1 import common_pb2, router_pb2, router_pb2_grpc

WORDS = ("Paris", " is", " it", ".")


class FakeRouter(router_pb2_grpc.RouterServicer):
    """Keeps the requests it got; `error` is raised instead of an answer."""

    def __init__(self) -> None:
        self.requests: list[router_pb2.GenerateRequest] = []
        self.error: KvrouteError | None = None
        self.address = ""

    def Generate(self, request: router_pb2.GenerateRequest, context: Any) -> Iterator[Any]:
        self.requests.append(request)
        if self.error is not None:
            detail = self.error.detail().SerializeToString()
            context.set_trailing_metadata(((ERROR_KEY, detail),))
            context.abort(self.error.code, self.error.message)
        context.send_initial_metadata((("kvroute-request-id", "r-1"),))
        for number, word in enumerate(WORDS):
            output = router_pb2.Output(text=word, token_ids=pack_tokens([number]))
            yield router_pb2.GenerateResponse(outputs=[output])
        end = router_pb2.Output(finish_reason=common_pb2.FINISH_REASON_STOP)
        usage = common_pb2.Usage(prompt_tokens=10, cached_tokens=8, completion_tokens=len(WORDS))
        explain = explanation().SerializeToString()
        context.set_trailing_metadata((("kvroute-explain-bin", explain),))
        yield router_pb2.GenerateResponse(outputs=[end], usage=usage)

    def ClusterState(
        self, request: router_pb2.ClusterStateRequest, context: Any
    ) -> router_pb2.ClusterStateResponse:
        return cluster_state()


def explanation() -> router_pb2.Explain:
    candidates = [
        router_pb2.CandidateCost(worker_id="worker-1", hit=0, miss=10, cost=50.0),
        router_pb2.CandidateCost(worker_id="worker-0", hit=8, miss=2, cost=12.5),
    ]
    return router_pb2.Explain(
        request_id="r-1",
        policy="lbgr_plus",
        worker_id="worker-0",
        prompt_tokens=10,
        candidates=candidates,
        best_hit=8,
        chosen_hit=8,
        delivered_hit=8,
        ttft_ms=42.0,
    )


def cluster_state() -> router_pb2.ClusterStateResponse:
    workers = [
        router_pb2.WorkerState(
            worker_id=f"worker-{number}",
            address=f"127.0.0.1:6006{number}",
            epoch=7,
            cached_blocks=5 * number,
            total_blocks=100,
            connected=number == 0,
        )
        for number in (1, 0)
    ]
    identity = common_pb2.ModelIdentity(
        served_name="demo", dtype="float32", block_size=16, max_context=8192
    )
    model = router_pb2.ModelState(
        identity=identity,
        workers=workers,
        view_complete=True,
        default_policy="lbgr_plus",
        routers=1,
    )
    return router_pb2.ClusterStateResponse(router_id="router-a", models=[model])


@contextmanager
def serving() -> Iterator[FakeRouter]:
    """A fake that serves on a free loopback port, in threads of its own."""
    fake = FakeRouter()
    server = grpc.server(ThreadPoolExecutor(4))
    router_pb2_grpc.add_RouterServicer_to_server(fake, server)
    fake.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield fake
    finally:
        server.stop(0).wait()
