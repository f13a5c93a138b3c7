"""Between the engine's thread and the routers' sessions: who asked for what, and whose output this
is.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from cache_index.identity import ModelIdentity
from kvroute.errors import KvrouteError, NotFound, Unavailable
from kvroute.v1 import worker_pb2
from worker_svc.base import CacheDelta, EngineClient, EngineStats, Finished, Output, StepReport
from worker_svc.convert import chunk, engine_request
from worker_svc.session import RouterSession
from worker_svc.text.detokenizer import Decode


class Hub:
    """Numbers requests for the engine and brings each step's outputs to the right session.

    `report` is the engine's sink and runs on its thread; everything else belongs to the event loop,
    which it enters once per step, not once per token.
    """

    def __init__(self, secret: bytes, on_delta: Callable[[CacheDelta], None]) -> None:
        self.draining = False
        self._secret = secret
        self._on_delta = on_delta
        self._loop = asyncio.get_running_loop()
        self._engine: EngineClient | None = None
        self._identity: ModelIdentity | None = None
        self._decode: Decode | None = None
        self._ids = itertools.count(1)
        self._owners: dict[int, tuple[RouterSession, int]] = {}
        self._flushes: list[asyncio.Future[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()

    def attach(
        self, engine: EngineClient, identity: ModelIdentity, decode: Decode | None = None
    ) -> None:
        """Before the first request: the engine is built with `report` as its sink, hence later than
        the hub. `decode` gives the texts of single tokens.
        """
        self._engine, self._identity, self._decode = engine, identity, decode

    @property
    def engine(self) -> EngineClient:
        assert self._engine is not None, "attach() comes first"
        return self._engine

    @property
    def identity(self) -> ModelIdentity:
        assert self._identity is not None, "attach() comes first"
        return self._identity

    @property
    def open_requests(self) -> int:
        return len(self._owners)

    def stats(self) -> EngineStats:
        return self.engine.stats()

    def report(self, report: StepReport) -> None:
        """The engine's sink."""
        self._loop.call_soon_threadsafe(self._deliver, report)

    def submit(self, session: RouterSession, submit: worker_pb2.Submit) -> None:
        """Starts a request of a session. What is wrong with it comes back as its stream's end."""
        if self.draining:
            self._refuse(
                session, submit, Unavailable("the worker is draining and takes no new requests")
            )
            return
        if submit.adapter:
            wrong = NotFound(
                f"adapter {submit.adapter!r} is not loaded", field="adapter", value=submit.adapter
            )
            self._refuse(session, submit, wrong)
            return
        request_id = next(self._ids)
        self._owners[request_id] = (session, submit.stream_id)
        session.streams[submit.stream_id] = request_id
        self._idle.clear()
        self.engine.submit(engine_request(request_id, submit, self.identity, self._secret))

    def cancel(self, session: RouterSession, stream_id: int) -> None:
        request_id = session.streams.pop(stream_id, None)
        if request_id is not None:
            self.engine.abort(request_id)

    def leave(self, session: RouterSession) -> None:
        """The router is gone: nobody waits for its requests any more."""
        for stream_id in list(session.streams):
            self.cancel(session, stream_id)

    async def flush_cache(self) -> None:
        """Drops every cached block that no running request uses; returns once that has happened and
        is noted.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self._flushes.append(done)
        self.engine.flush_cache()
        await done

    async def wait_idle(self) -> None:
        """Until no request is open."""
        await self._idle.wait()

    def _deliver(self, report: StepReport) -> None:
        delta = report.delta
        if delta.stored or delta.removed or delta.flushed:
            self._on_delta(delta)
        if delta.flushed:
            flushes, self._flushes = self._flushes, []
            for done in flushes:
                if not done.done():
                    done.set_result(None)
        for output in report.outputs:
            owner = self._owners.get(output.request_id)
            if owner is None:
                continue
            session, stream_id = owner
            if output.finished is not None:
                del self._owners[output.request_id]
                if not self._owners:
                    self._idle.set()
            if session.streams.get(stream_id) == output.request_id:
                session.push_chunk(chunk(stream_id, output, self._decode))

    def _refuse(
        self, session: RouterSession, submit: worker_pb2.Submit, error: KvrouteError
    ) -> None:
        finished = Finished("error", error=error)
        session.push_chunk(chunk(submit.stream_id, Output(0, finished=finished)))
