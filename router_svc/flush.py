"""Asks one worker to empty its cache."""

from __future__ import annotations

import grpc

from kvroute.errors import from_status
from kvroute.v1 import worker_pb2, worker_pb2_grpc


async def flush_worker(address: str, timeout_s: float) -> worker_pb2.FlushCacheResponse:
    """A call of its own beside the session, which carries frames of requests only.

    Raises:
        KvrouteError: the worker's own error, or that it cannot be reached in time.
    """
    async with grpc.aio.insecure_channel(address) as channel:
        stub = worker_pb2_grpc.WorkerStub(channel)
        try:
            found: worker_pb2.FlushCacheResponse = await stub.FlushCache(
                worker_pb2.FlushCacheRequest(), timeout=timeout_s
            )
        except grpc.aio.AioRpcError as error:
            raise from_status(error.code(), error.details() or error.code().name) from None
        return found
