"""The one long-lived stream from this router to one worker, shared by all requests that go there.

Commands of one event-loop turn leave as one frame; a frame from the worker carries one engine step
of all our requests. A broken link fails its streams with `Unavailable` (the pipeline goes on
elsewhere) and connects again with growing pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import structlog

from cache_index.base import Epoch
from cache_index.fleet import WorkerRecord
from cache_index.identity import ModelIdentity
from cache_index.tasks import end
from kvroute.errors import KvrouteError, Mismatch, Unavailable, from_status
from kvroute.v1 import worker_pb2, worker_pb2_grpc
from router_svc.stream import RemoteStream

PROTOCOL_VERSION = 1
_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Each link has a connection of its own: one worker's full socket never holds up another's
    # frames.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
_RETRY_S = (0.05, 0.1, 0.2, 0.5, 1.0)
_CONNECT_TIMEOUT_S = 5.0

Call = Any
"""A `grpc.aio.StreamStreamCall`; grpcio brings no types."""


class Link:
    """Keeps the session with one worker up. All methods are for one event loop."""

    def __init__(
        self,
        record: WorkerRecord,
        router_id: str,
        on_change: Callable[[], None],
        silence_s: float = 3.0,
    ) -> None:
        self.worker_id = record.worker_id
        self.address = record.address
        self.epoch = record.epoch
        self.connected = False
        self.draining = False
        self.refused: Mismatch | None = None
        self.settled = asyncio.Event()
        """The first attempt to connect has ended, well or badly."""
        self._identity = record.identity
        self._router_id = router_id
        self._on_change = on_change
        self._silence_s = silence_s
        self._streams: dict[int, RemoteStream] = {}
        self._tokenizing: dict[int, asyncio.Future[worker_pb2.Tokenized]] = {}
        self._next_id = 0
        self._frame = worker_pb2.SessionRequest()
        self._has_frame = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._log = structlog.get_logger().bind(worker=record.worker_id, address=record.address)

    @property
    def in_flight(self) -> int:
        """Open streams on this link."""
        return len(self._streams)

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_up(), name=f"link-{self.worker_id}")

    async def stop(self) -> None:
        """Closes the stream; every open request on it fails with `Unavailable`."""
        task, self._task = self._task, None
        await end(task)

    # Requests

    def open(self, submit: worker_pb2.Submit, stream: RemoteStream) -> int:
        """Sends a request; its chunks go to `stream`. Returns the id for `close`.

        Raises:
            Unavailable: the link is down.
        """
        if not self.connected:
            raise Unavailable(f"worker {self.worker_id} at {self.address} is not reachable")
        stream_id = self._take_id()
        submit.stream_id = stream_id
        self._streams[stream_id] = stream
        self._frame.submits.append(submit)
        self._has_frame.set()
        return stream_id

    def close(self, stream_id: int) -> None:
        """Forgets a stream; the worker stops working on it within one step. Does nothing if it has
        ended.
        """
        stream = self._streams.pop(stream_id, None)
        if stream is not None and stream.end is None and self.connected:
            self._frame.cancels.add(stream_id=stream_id)
            self._has_frame.set()

    async def tokenize(self, request: worker_pb2.Tokenize) -> worker_pb2.Tokenized:
        """Token ids of a text or chat, or the text of token ids.

        Raises:
            KvrouteError: the worker's own error, or `Unavailable` when the link is down or breaks.
        """
        if not self.connected:
            raise Unavailable(f"worker {self.worker_id} at {self.address} is not reachable")
        request.stream_id = self._take_id()
        future: asyncio.Future[worker_pb2.Tokenized] = asyncio.get_running_loop().create_future()
        self._tokenizing[request.stream_id] = future
        self._frame.tokenizes.append(request)
        self._has_frame.set()
        try:
            return await future
        finally:
            self._tokenizing.pop(request.stream_id, None)

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id

    # The stream

    async def _keep_up(self) -> None:
        failures = 0
        while True:
            try:
                async with (
                    grpc.aio.insecure_channel(self.address, options=_CHANNEL_OPTIONS) as channel,
                    self._session(channel) as call,
                ):
                    failures = 0
                    await self._read(call)
            except grpc.aio.AioRpcError as error:
                if error.code() is Mismatch.code:
                    self._refuse(Mismatch(error.details() or "refused by the worker"))
                self._lost(f"{error.code().name}: {error.details()}")
            except Mismatch as error:
                self._refuse(error)
                self._lost(str(error))
            except (KvrouteError, TimeoutError) as error:
                self._lost(str(error) or type(error).__name__)
            except asyncio.CancelledError:
                self._lost("the link was closed")
                raise
            await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
            failures += 1

    @contextlib.asynccontextmanager
    async def _session(self, channel: grpc.aio.Channel) -> AsyncIterator[Call]:
        """An open, shaken-hands session whose writer runs; cancelled on the way out, whatever
        happened.
        """
        call: Call = worker_pb2_grpc.WorkerStub(channel).Session()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await call.write(worker_pb2.SessionRequest(hello=self._hello()))
                reply = await call.read()
            if reply is grpc.aio.EOF:
                raise Unavailable(
                    f"worker {self.worker_id} closed the session during the handshake"
                )
            self._check(reply.hello)
            writer = asyncio.create_task(self._write(call))
            try:
                self.connected, self.refused = True, None
                self.settled.set()
                self._log.info("worker connected", epoch=self.epoch)
                self._on_change()
                yield call
            finally:
                writer.cancel()
                with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                    await writer
        finally:
            call.cancel()

    def _refuse(self, error: Mismatch) -> None:
        if self.refused is None:
            self._log.error("worker refused", reason=str(error))
        self.refused = error

    def _hello(self) -> worker_pb2.Hello:
        return worker_pb2.Hello(
            protocol_version=PROTOCOL_VERSION,
            router_id=self._router_id,
            identity=self._identity.to_proto(),
        )

    def _check(self, reply: worker_pb2.HelloReply) -> None:
        if reply.protocol_version != PROTOCOL_VERSION:
            raise Mismatch(
                f"worker {self.worker_id} speaks protocol {reply.protocol_version}, this router "
                f"{PROTOCOL_VERSION}: upgrade the older one",
                field="protocol_version",
                value=reply.protocol_version,
                limit=PROTOCOL_VERSION,
            )
        if reply.worker_id != self.worker_id:
            raise Mismatch(
                f"{self.address} is worker {reply.worker_id}, not {self.worker_id}",
                field="worker_id",
                value=reply.worker_id,
                limit=self.worker_id,
            )
        different = self._identity.difference(ModelIdentity.from_proto(reply.identity))
        if different:
            first = different[0]
            raise Mismatch(
                f"worker {self.worker_id} has {first.field} {first.theirs!r}, "
                f"the registry says {first.ours!r}",
                field=first.field,
                value=first.theirs,
                limit=first.ours,
            )
        self.epoch = Epoch(reply.epoch)
        self.draining = False

    async def _write(self, call: Call) -> None:
        while True:
            await self._has_frame.wait()
            self._has_frame.clear()
            frame, self._frame = self._frame, worker_pb2.SessionRequest()
            await call.write(frame)

    async def _next(self, call: Call) -> Any:
        """The next frame. Workers send one at least every `worker_svc.session.HEARTBEAT_S`.

        Raises:
            Unavailable: none came for `silence_s`: the process is frozen, or the network is.
        """
        try:
            async with asyncio.timeout(self._silence_s):
                return await call.read()
        except TimeoutError:
            raise Unavailable(f"silent for {self._silence_s:g} s") from None

    async def _read(self, call: Call) -> None:
        while True:
            frame = await self._next(call)
            if frame is grpc.aio.EOF:
                raise Unavailable(f"worker {self.worker_id} closed the session")
            for chunk in frame.chunks:
                stream = self._streams.get(chunk.stream_id)
                if stream is not None:
                    stream.feed(chunk)
                    if stream.end is not None:
                        del self._streams[chunk.stream_id]
            for result in frame.tokenized:
                self._tokenized(result)
            if frame.draining and not self.draining:
                self.draining = True
                self._on_change()

    def _tokenized(self, result: worker_pb2.Tokenized) -> None:
        future = self._tokenizing.get(result.stream_id)
        if future is None or future.done():
            return
        if result.code:
            future.set_exception(from_status(result.code, result.message))
        else:
            future.set_result(result)

    def _lost(self, reason: str) -> None:
        was_connected, self.connected = self.connected, False
        self.settled.set()
        self._frame = worker_pb2.SessionRequest()
        self._has_frame.clear()
        streams, self._streams = self._streams, {}
        error = Unavailable(f"lost worker {self.worker_id} at {self.address}: {reason}")
        for stream in streams.values():
            stream.fail(error)
        for future in list(self._tokenizing.values()):
            if not future.done():
                future.set_exception(error)
        if was_connected:
            self._log.warning("worker lost", reason=reason, streams=len(streams))
            self._on_change()
