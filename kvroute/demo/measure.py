"""Sends the demo's requests one after the other and measures what comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import grpc

from kvroute.client import Client
from kvroute.demo.outcome import Outcome
from kvroute.demo.workload import DemoRequest
from kvroute.errors import KvrouteError, StartError
from kvroute.v1 import router_pb2, worker_pb2, worker_pb2_grpc

POLL_S = 0.05
FLUSH_TIMEOUT_S = 30.0


async def run_policy(
    client: Client,
    policy: str,
    requests: Sequence[DemoRequest],
    max_tokens: int,
    report: Callable[[Outcome], None],
) -> list[Outcome]:
    """Closed loop with one request at a time, so that no time to first token holds a queue."""
    outcomes = []
    for request in requests:
        outcome = await send(client, policy, request, max_tokens)
        report(outcome)
        outcomes.append(outcome)
    return outcomes


async def send(client: Client, policy: str, request: DemoRequest, max_tokens: int) -> Outcome:
    """One request; never raises an error of kvroute, which becomes the outcome's `error`."""
    started = time.perf_counter()
    ttft_ms: float | None = None
    parts = []
    generation = client.generate(
        token_ids=request.token_ids, policy=policy, max_tokens=max_tokens, ignore_eos=True
    )
    try:
        async with generation:
            async for chunk in generation:
                if ttft_ms is None and chunk.token_ids:
                    ttft_ms = (time.perf_counter() - started) * 1e3
                parts.append(chunk.text)
    except KvrouteError as error:
        return Outcome(request, error=str(error))
    usage, explain = generation.usage, generation.explain
    if usage is None or explain is None or ttft_ms is None:
        return Outcome(request, error="the answer came without tokens, usage or explanation")
    return Outcome(
        request=request,
        worker_id=explain.worker_id,
        ttft_ms=ttft_ms,
        cached_tokens=usage.cached_tokens,
        predicted_hit=explain.chosen_hit,
        delivered_hit=explain.delivered_hit,
        text="".join(parts),
    )


async def empty_caches(client: Client) -> None:
    """Makes every worker drop its cache, and waits until the router knows. Raises StartError."""
    for worker in _workers(await client.cluster_state()):
        async with grpc.aio.insecure_channel(worker.address) as channel:
            try:
                stub = worker_pb2_grpc.WorkerStub(channel)
                await stub.FlushCache(worker_pb2.FlushCacheRequest(), timeout=FLUSH_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                raise StartError(
                    f"{worker.worker_id} did not empty its cache: {error.details()}"
                ) from None
    try:
        async with asyncio.timeout(FLUSH_TIMEOUT_S):
            while True:
                if _empty(await client.cluster_state()):
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise StartError(
            f"the router still knows cached blocks {FLUSH_TIMEOUT_S:g} s after the caches were "
            "emptied"
        ) from None


def _workers(state: router_pb2.ClusterStateResponse) -> list[router_pb2.WorkerState]:
    return [worker for model in state.models for worker in model.workers]


def _empty(state: router_pb2.ClusterStateResponse) -> bool:
    return all(model.view_complete for model in state.models) and all(
        worker.connected and worker.cached_blocks == 0 for worker in _workers(state)
    )
