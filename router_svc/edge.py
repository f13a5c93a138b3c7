"""The router's gRPC service. Generated parts pass through as bytes; errors become statuses with a
detail.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, NoReturn

import grpc
import structlog

from kvroute import __version__
from kvroute.errors import ERROR_KEY, KvrouteError, NotFound
from kvroute.v1 import router_pb2
from router_svc.cluster import model_state
from router_svc.discovery import Fleets
from router_svc.pipeline import Pipeline
from router_svc.settings import RouterSettings

SERVICE = "kvroute.v1.Router"
REQUEST_KEY, EXPLAIN_KEY = "kvroute-request-id", "kvroute-explain-bin"

Context = Any
"""A `grpc.aio.ServicerContext`; grpcio brings no types."""


class RouterEdge:
    """Handlers of `kvroute.v1.Router`."""

    def __init__(self, settings: RouterSettings, pipeline: Pipeline, fleets: Fleets) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._fleets = fleets
        self._log = structlog.get_logger()

    def handler(self) -> grpc.GenericRpcHandler:
        """For `server.add_generic_rpc_handlers`. `Generate` answers with bytes that are serialized
        already.
        """
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Generate": grpc.unary_stream_rpc_method_handler(
                    self.generate,
                    request_deserializer=router_pb2.GenerateRequest.FromString,
                ),
                "Route": grpc.unary_unary_rpc_method_handler(
                    self.route,
                    request_deserializer=router_pb2.RouteRequest.FromString,
                    response_serializer=router_pb2.RouteResponse.SerializeToString,
                ),
                "GetExplain": grpc.unary_unary_rpc_method_handler(
                    self.get_explain,
                    request_deserializer=router_pb2.GetExplainRequest.FromString,
                    response_serializer=router_pb2.GetExplainResponse.SerializeToString,
                ),
                "ClusterState": grpc.unary_unary_rpc_method_handler(
                    self.cluster_state,
                    request_deserializer=router_pb2.ClusterStateRequest.FromString,
                    response_serializer=router_pb2.ClusterStateResponse.SerializeToString,
                ),
            },
        )

    async def generate(self, request: router_pb2.GenerateRequest, context: Context) -> None:
        record = self._pipeline.new_record(request)
        await context.send_initial_metadata(((REQUEST_KEY, record.request_id),))
        try:
            await self._pipeline.generate(request, record, self._timeout(context), context.write)
        except KvrouteError as error:
            await self._abort(context, error, record)
        context.set_trailing_metadata(((EXPLAIN_KEY, record.SerializeToString()),))

    async def route(
        self, request: router_pb2.RouteRequest, context: Context
    ) -> router_pb2.RouteResponse:
        explain = await self._guarded(
            context, self._pipeline.route(request.request, self._timeout(context))
        )
        return router_pb2.RouteResponse(explain=explain)

    async def get_explain(
        self, request: router_pb2.GetExplainRequest, context: Context
    ) -> router_pb2.GetExplainResponse:
        found = self._pipeline.ring.find(request.request_id)
        if found is None:
            await self._abort(context, self._pipeline.unknown_request(request.request_id))
        return router_pb2.GetExplainResponse(explain=found)

    async def cluster_state(
        self, request: router_pb2.ClusterStateRequest, context: Context
    ) -> router_pb2.ClusterStateResponse:
        fleets = self._fleets.all()
        if request.model:
            fleets = [fleet for fleet in fleets if fleet.served_name == request.model]
            if not fleets:
                await self._abort(
                    context, NotFound(f"model {request.model!r} is not served", field="model")
                )
        return router_pb2.ClusterStateResponse(
            router_id=self._pipeline.router_id,
            version=__version__,
            models=[await model_state(fleet, self._settings.policy) for fleet in fleets],
        )

    def _timeout(self, context: Context) -> float:
        left = context.time_remaining()
        limit = self._settings.request_timeout_s
        return limit if left is None else min(left, limit)

    async def _guarded(
        self, context: Context, work: Awaitable[router_pb2.Explain]
    ) -> router_pb2.Explain:
        try:
            return await work
        except KvrouteError as error:
            await self._abort(context, error)

    async def _abort(
        self, context: Context, error: KvrouteError, record: router_pb2.Explain | None = None
    ) -> NoReturn:
        self._log.info(
            "request refused",
            request=record.request_id if record else "",
            status=error.code.name,
            reason=str(error),
        )
        trailing: list[tuple[str, bytes]] = [(ERROR_KEY, error.detail().SerializeToString())]
        if record is not None:
            trailing.append((EXPLAIN_KEY, record.SerializeToString()))
        await context.abort(error.code, str(error), tuple(trailing))
        raise AssertionError("abort always raises")
