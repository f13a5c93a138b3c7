"""The life of one request in the router: check, tokenize, match, choose and book, relay, settle,
explain.

A worker that is lost mid-stream is replaced: the request goes on elsewhere behind the tokens
already sent (prompt + tokens, same sampling state), and the client sees one unbroken stream.
Nothing is sent twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import structlog

from cache_index.base import IndexKey, WorkerId
from cache_index.costs import LedgerState
from cache_index.identity import ModelIdentity
from cache_index.keys import index_keys
from kvroute.errors import Expired, NotFound, Overloaded, Unavailable, from_status
from kvroute.tokens import TOKEN_BYTES
from kvroute.v1 import common_pb2, router_pb2, worker_pb2
from router_svc.booking import Held, book
from router_svc.discovery import Fleets
from router_svc.explain import ExplainRing, record_decision
from router_svc.fleet import ModelFleet
from router_svc.policy.base import Decision, Ended, Policy, Request
from router_svc.policy.hashing import prefix_key
from router_svc.policy.registry import POLICIES, make
from router_svc.settings import RouterSettings
from router_svc.stream import RemoteStream, SlowReader
from router_svc.tokens import TokenSource
from router_svc.validate import check_ids, check_request, check_tokens

Write = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True)
class Job:
    """A request on its way, after validation."""

    request: router_pb2.GenerateRequest
    record: router_pb2.Explain
    fleet: ModelFleet
    identity: ModelIdentity
    prompt: bytes
    keys: list[IndexKey]
    arrived: float
    deadline: float
    policy: Policy
    reuse: float = 0.0
    priced: Request = Request(1)
    """What the policy was last asked."""
    sent: list[bytes] = field(default_factory=list)
    """Every part the client got: what a second worker has to go on behind."""
    lost: set[WorkerId] = field(default_factory=set)

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt) // TOKEN_BYTES


class Pipeline:
    """Everything a request passes through, without a front: gRPC and HTTP edges call it."""

    def __init__(
        self, settings: RouterSettings, router_id: str, fleets: Fleets, rng: Random
    ) -> None:
        self.router_id = router_id
        self.ring = ExplainRing(settings.explain_ring)
        self._settings = settings
        self._fleets = fleets
        self._rng = rng
        self._policies = {name: make(name) for name in POLICIES}
        self._tokens = TokenSource(
            entries=settings.tokenize_cache, timeout_s=settings.tokenize_timeout_s
        )
        self._count = 0
        self.in_flight = 0

    def new_record(self, request: router_pb2.GenerateRequest) -> router_pb2.Explain:
        """An empty explain record with the request's id, its own or a new one that names this
        router.
        """
        self._count += 1
        return router_pb2.Explain(
            request_id=request.request_id or f"{self.router_id}-{self._count:x}",
            router_id=self.router_id,
        )

    def unknown_request(self, request_id: str) -> NotFound:
        """What to say of an id that the ring does not hold."""
        owner = request_id.rpartition("-")[0]
        if owner and owner != self.router_id:
            reason = f"its id names router {owner}, this one is {self.router_id}: ask that one"
        else:
            reason = "it never came here, has not ended, or is too old to be kept"
        return NotFound(
            f"request {request_id[:80]!r} is not known: {reason}",
            field="request_id",
            value=request_id,
        )

    async def generate(
        self,
        request: router_pb2.GenerateRequest,
        record: router_pb2.Explain,
        timeout_s: float,
        write: Write,
    ) -> None:
        """Serves the request; every part goes through `write` (serialized `GenerateResponse`).

        Raises:
            KvrouteError: with the status the client should see. Cancelling the task cancels the
            request everywhere.
        """
        if self.in_flight >= self._settings.max_requests:
            raise Overloaded(
                f"{self.in_flight} requests are in flight, as many as max_requests allows",
                field="max_requests",
                value=self.in_flight,
                limit=self._settings.max_requests,
                retry_after_ms=1000,
            )
        self.in_flight += 1
        try:
            async with asyncio.timeout(timeout_s):
                job = await self._prepare(request, record, timeout_s)
                job.reuse = self._count_arrival(job)
                await self._serve(job, write)
        except TimeoutError:
            where = f" on worker {record.worker_id}" if record.worker_id else ""
            raise Expired(f"the request's deadline of {timeout_s:g} s passed{where}") from None
        finally:
            self.in_flight -= 1
            self.ring.keep(record)

    async def route(
        self, request: router_pb2.GenerateRequest, timeout_s: float
    ) -> router_pb2.Explain:
        """Where `request` would go now, and why; nothing is booked, counted or sent."""
        record = self.new_record(request)
        job = await self._prepare(request, record, timeout_s)
        decision, _ = await self._decide(job)
        record_decision(record, decision, decision.chosen)
        return record

    async def tokenize(
        self, request: router_pb2.GenerateRequest, timeout_s: float
    ) -> tuple[bytes, ModelIdentity]:
        """Token ids (little-endian uint32) of the request's prompt or chat, and the model they are
        for.
        """
        check_request(request, POLICIES)
        fleet = self._fleets.find(request.model)
        await fleet.wait_usable(min(timeout_s, self._settings.wait_s))
        return await self._token_ids(request, fleet), fleet.identity

    async def detokenize(self, model: str, token_ids: bytes, timeout_s: float) -> str:
        """The text of token ids."""
        fleet = self._fleets.find(model)
        await fleet.wait_usable(min(timeout_s, self._settings.wait_s))
        check_ids(token_ids, fleet.identity, "tokens")
        return await self._tokens.text(token_ids, fleet.usable())

    async def _token_ids(self, request: router_pb2.GenerateRequest, fleet: ModelFleet) -> bytes:
        if request.WhichOneof("input") == "token_ids":
            return request.token_ids
        identity = fleet.identity
        return await self._tokens.token_ids(
            request, f"{identity.tokenizer}/{identity.chat_template}", fleet.usable()
        )

    async def _prepare(
        self, request: router_pb2.GenerateRequest, record: router_pb2.Explain, timeout_s: float
    ) -> Job:
        arrived = time.monotonic()
        check_request(request, POLICIES)
        fleet = self._fleets.find(request.model)
        await fleet.wait_usable(min(timeout_s, self._settings.wait_s))
        identity = fleet.identity
        source = request.WhichOneof("input") or ""
        prompt = await self._token_ids(request, fleet)
        record.tokenize_ms = (time.monotonic() - arrived) * 1000.0
        room = identity.max_context - len(prompt) // TOKEN_BYTES
        self._complete_sampling(request.sampling, source, room)
        check_tokens(prompt, request.sampling, identity, source)
        space = identity.key_space(
            adapter=request.adapter,
            tenant=request.tenant,
            secret=self._settings.key_secret.encode(),
        )
        record.model = identity.served_name
        record.policy = request.policy or self._settings.policy
        record.prompt_tokens = len(prompt) // TOKEN_BYTES
        return Job(
            request=request,
            record=record,
            fleet=fleet,
            identity=identity,
            prompt=prompt,
            keys=index_keys(space.keys(prompt)),
            arrived=arrived,
            deadline=arrived + timeout_s,
            policy=self._policies[record.policy],
        )

    def _complete_sampling(
        self, sampling: common_pb2.SamplingParams, source: str, room: int
    ) -> None:
        """Fixes what a worker would otherwise draw for itself: a second worker must go on with the
        same. `room`: tokens that the context has left; a default never asks for more.
        """
        if not sampling.max_tokens:
            settings = self._settings
            is_chat = source == "chat"
            default = settings.chat_max_tokens_default if is_chat else settings.max_tokens_default
            sampling.max_tokens = max(1, min(default or room, room))
        if sampling.temperature > 0 and not sampling.HasField("seed"):
            sampling.seed = self._rng.getrandbits(32)

    async def _serve(self, job: Job, write: Write) -> None:
        for attempt in range(self._settings.attempts):
            job.record.retries = attempt
            try:
                await self._attempt(job, write)
                return
            except SlowReader:
                raise
            except (Unavailable, Overloaded) as error:
                # Only what another worker may do better is tried again: a lost or a full worker.
                if attempt + 1 == self._settings.attempts:
                    raise
                structlog.get_logger().warning(
                    "request goes on elsewhere",
                    request=job.record.request_id,
                    worker=job.record.worker_id,
                    reason=str(error),
                )
                job.lost.add(WorkerId(job.record.worker_id))

    async def _attempt(self, job: Job, write: Write) -> None:
        decision, load = await self._decide(job)
        started = time.monotonic()
        held = await book(
            job.fleet.ledger,
            decision,
            prompt_tokens=job.prompt_tokens,
            max_tokens=job.request.sampling.max_tokens,
            block_size=job.identity.block_size,
            deadline_s=max(0.0, job.deadline - started),
        )
        worker_id = WorkerId(held.price.candidate.worker_id)
        with held, job.fleet.in_flight.computing(worker_id, job.keys):
            record_decision(job.record, decision, held.price)
            job.record.degraded = held.degraded or job.fleet.follower.stale
            job.record.decide_ms = (time.monotonic() - started) * 1000.0
            job.policy.on_book(job.priced, held.price)
            done = False
            try:
                await self._relay(job, held, write)
                done = True
            finally:
                job.policy.on_end(_ended(job, held, failed=not done))

    async def _decide(self, job: Job) -> tuple[Decision, LedgerState]:
        """The policy's choice on the view and the ledger of this moment."""
        fleet = job.fleet
        try:
            load = await fleet.ledger.peek()
        except Unavailable:
            load = fleet.ledger.local_state()
        hits = fleet.match(job.keys)
        view = fleet.candidates(
            hits,
            load,
            prompt_tokens=job.prompt_tokens,
            block_size=job.identity.block_size,
            exclude=job.lost,
        )
        if view is None:
            await fleet.wait_usable(self._settings.wait_s)
            view = fleet.candidates(
                hits, load, prompt_tokens=job.prompt_tokens, block_size=job.identity.block_size
            )
        if view is None:
            raise Unavailable(
                f"no worker of {fleet.served_name} can be reached", retry_after_ms=1000
            )
        job.record.best_hit = max(candidate.hit for candidate in view.candidates)
        job.priced = Request(
            job.prompt_tokens,
            job.request.sampling.max_tokens,
            job.reuse * max(1, load.routers),
            job.identity.block_size,
            prefix_key(job.keys, job.identity.block_size),
            time.monotonic(),
        )
        return job.policy.choose(job.priced, view, self._rng), load

    def _count_arrival(self, job: Job) -> float:
        """n of the hot-prefix discount: earlier arrivals of the deepest block that any worker
        holds.
        """
        held = max(job.fleet.match(job.keys).values(), default=0)
        return job.fleet.arrivals.arrive_prompt(job.keys, held, time.monotonic())

    async def _relay(self, job: Job, held: Held, write: Write) -> None:
        record, link = job.record, job.fleet.links.get(WorkerId(job.record.worker_id))
        if link is None:
            raise Unavailable(f"worker {record.worker_id} has left")
        stream = RemoteStream(self._settings.max_buffer_bytes, held.first_token)
        stream_id = link.open(self._submit(job), stream)
        try:
            while True:
                part = await stream.next()
                if stream.admission is not None and not job.sent:
                    record.delivered_hit = stream.admission.cached_tokens
                if part.end is not None and part.end.code:
                    end = part.end
                    raise from_status(end.code, end.message, end.detail)
                if part.response:
                    if not job.sent:
                        record.ttft_ms = (time.monotonic() - job.arrived) * 1000.0
                    job.sent.append(part.response)
                    await write(part.response)
                if part.end is not None:
                    held.served(part.end)
                    record.delivered_prefill_ms = part.end.timing.prefill_ms
                    return
        finally:
            link.close(stream_id)

    def _submit(self, job: Job) -> worker_pb2.Submit:
        done = router_pb2.GenerateResponse.FromString(b"".join(job.sent))
        generated = b"".join(output.token_ids for output in done.outputs)
        request = job.request
        return worker_pb2.Submit(
            request_id=job.record.request_id,
            token_ids=job.prompt + generated,
            sampling=request.sampling,
            tenant=request.tenant,
            adapter=request.adapter,
            priority=request.priority,
            hints=request.hints,
            trace=request.trace,
            expected_hit=job.record.chosen_hit,
            resumed_tokens=len(generated) // TOKEN_BYTES,
            deadline_ms=max(1, int((job.deadline - time.monotonic()) * 1000)),
        )


def _ended(job: Job, held: Held, *, failed: bool) -> Ended:
    """What a policy that keeps books of its own hears at the end."""
    return Ended(
        job.priced,
        held.price,
        time.monotonic(),
        hit=job.record.delivered_hit,
        failed=failed,
    )
