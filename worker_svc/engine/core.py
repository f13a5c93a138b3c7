"""One engine step, synchronous: plan, compute, book, report. No threads; the clock is passed in."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterable
from random import Random
from typing import cast

import structlog

from cache_index.base import BlockKey
from kvroute.errors import InvalidArgument, KvrouteError, Mismatch, Overloaded
from worker_svc.base import (
    Admitted,
    CacheDelta,
    EngineRequest,
    EngineStats,
    Finished,
    Output,
    StepReport,
)
from worker_svc.engine.base import Picked, Runner
from worker_svc.engine.options import EngineOptions
from worker_svc.engine.scheduler import Plan, Planned, Scheduler
from worker_svc.engine.sequence import Sequence
from worker_svc.engine.step_rows import rows_of
from worker_svc.kv.base import Delta, require
from worker_svc.kv.block_pool import BlockPool
from worker_svc.kv.evict.registry import create
from worker_svc.text.detokenizer import Decode

Clock = Callable[[], float]
"""Seconds, never going back."""

_log = structlog.get_logger(__name__)


class EngineCore:
    """Not thread-safe. Reports of one request: `Admitted` once, outputs, `Finished` once and
    last.
    """

    def __init__(
        self, runner: Runner, decode: Decode | None, options: EngineOptions, clock: Clock
    ) -> None:
        self._runner = runner
        self._decode = decode
        self._options = options
        self._clock = clock
        self._order = itertools.count()
        self._steps = 0
        self._evictions = 0
        self._outputs: list[Output] = []
        # Mean seconds between two ends of requests: what a place in the queue costs.
        self._pace = 0.0
        self._ended_at: float | None = None
        runner.allocate(options.blocks, options.block_size)
        self._scheduler = self._new_scheduler()

    def submit(self, request: EngineRequest) -> None:
        """Queues a request, or puts its `Finished` into the next report."""
        try:
            self._check_request(request)
            order = next(self._order)
            sequence = Sequence.of(request, self._decode, self._runner.eos, order)
            sequence.times.arrived = self._clock()
            ended = sequence.resume()
            if ended.reason is not None:
                finished = sequence.finished(ended.reason, ended.stop_reason)
                self._outputs.append(Output(request.request_id, finished=finished))
                return
            self._scheduler.add(sequence)
        except KvrouteError as error:
            if isinstance(error, Overloaded):
                error.retry_after_ms = self.retry_after_ms()
            self._refuse(request, error)

    def abort(self, request_id: int) -> None:
        """Ends a request as cancelled. Unknown ids do nothing."""
        sequence = self._scheduler.find(request_id)
        if sequence is not None:
            self._finish(sequence, sequence.finished("cancelled"))

    def flush_cache(self) -> None:
        self._scheduler.pool.flush()

    @property
    def has_work(self) -> bool:
        return bool(self._scheduler.running or len(self._scheduler.waiting))

    def step(self) -> StepReport | None:
        """One step, if there is anything to do or to report; None otherwise. Never raises for a
        request's fault.
        """
        try:
            if self.has_work:
                self._step()
        except Exception as error:
            _log.error(
                "engine bookkeeping failed; starting over with an empty cache",
                traceback=traceback.format_exc(),
            )
            self._reset(error)
        return self._report()

    def stop(self) -> StepReport | None:
        """Ends everything as cancelled."""
        scheduler = self._scheduler
        for sequence in [*scheduler.running, *scheduler.waiting]:
            self._finish(sequence, sequence.finished("cancelled"))
        return self._report()

    def stats(self) -> EngineStats:
        scheduler = self._scheduler
        counts = scheduler.pool.counts()
        return EngineStats(
            waiting=len(scheduler.waiting),
            running=len(scheduler.running),
            waiting_tokens=scheduler.waiting.tokens,
            free_blocks=counts.free,
            cached_blocks=counts.cached,
            locked_blocks=counts.locked,
            total_blocks=counts.total,
            steps=self._steps,
            evictions=self._evictions + scheduler.pool.evictions,
            preemptions=scheduler.preemptions,
        )

    def retry_after_ms(self) -> int:
        """When a place in the queue is likely to be free: at the pace of late, at least 0.1 s and
        at most 60 s.
        """
        return int(min(60_000, max(100, 1000 * self._pace)))

    def check(self) -> None:
        """Raises `InvariantError` when the bookkeeping is inconsistent. O(blocks)."""
        self._scheduler.check()

    def _check_request(self, request: EngineRequest) -> None:
        tokens, most = request.tokens, request.sampling.max_tokens
        if not tokens or request.resumed_tokens >= len(tokens):
            raise InvalidArgument.of("token_ids", "empty", "at least one token")
        if request.space.block_size != self._options.block_size:
            # Keys of another block size would match blocks that hold other tokens.
            raise Mismatch(
                f"block keys are of block size {request.space.block_size},"
                f" the cache has {self._options.block_size}",
                field="block_size",
            )
        if self._scheduler.find(request.request_id) is not None:
            raise InvalidArgument.of("request_id", request.request_id, "unused")
        if most < 1:
            raise InvalidArgument.of("sampling.max_tokens", most, "1 or more")
        top, low, vocab = max(tokens), min(tokens), self._runner.vocab_size
        if top >= vocab or low < 0:
            wrong = top if top >= vocab else low
            raise InvalidArgument.of("token_ids", wrong, f"between 0 and {vocab - 1}")
        total = len(tokens) - request.resumed_tokens + most
        if total > self._runner.max_context:
            raise InvalidArgument.of(
                "token_ids + max_tokens", f"{total} tokens", f"at most {self._runner.max_context}"
            )
        if request.sampling.stop and self._decode is None:
            raise InvalidArgument.of(
                "sampling.stop", request.sampling.stop, "empty: this model has no tokenizer"
            )

    def _step(self) -> None:
        began = self._clock()
        plan = self._scheduler.schedule(began)
        require(bool(plan.rows) or not self._scheduler.running, "a step without any row")
        for sequence in plan.admitted:
            admitted = Admitted(sequence.cached_tokens or 0, sequence.times.queue_ms)
            self._outputs.append(Output(sequence.request.request_id, admitted=admitted))
        if not plan.rows:
            return
        try:
            results = self._runner.run(rows_of(plan))
        except Exception as error:
            # As text: pretty tracebacks print local variables, and printing tensors takes seconds.
            _log.error("a step failed", requests=len(plan.rows), traceback=traceback.format_exc())
            self._fail((row.sequence for row in plan.rows), _step_error(error))
            return
        self._steps += 1
        self._book_times(plan, (self._clock() - began) * 1000)
        for row, result in zip(plan.rows, results, strict=True):
            if isinstance(result, KvrouteError):
                self._fail((row.sequence,), result)
            else:
                self._take(row, result)

    def _take(self, row: Planned, result: Picked | None) -> None:
        sequence = row.sequence
        self._scheduler.computed(row)
        if result is None:
            return
        accepted = sequence.accept(result.token)
        finished = None
        if accepted.reason is not None:
            finished = sequence.finished(accepted.reason, accepted.stop_reason)
            self._end(sequence)
        self._outputs.append(
            Output(
                sequence.request.request_id,
                accepted.text,
                (result.token,),
                logprobs=() if result.logprobs is None else (result.logprobs,),
                finished=finished,
            )
        )

    def _book_times(self, plan: Plan, step_ms: float) -> None:
        tokens = sum(row.count for row in plan.rows)
        for row in plan.rows:
            share = step_ms * row.count / tokens
            row.sequence.spent(share, step_ms, len(plan.rows), decoding=row.decoding)

    def _fail(self, sequences: Iterable[Sequence], error: KvrouteError) -> None:
        for sequence in sequences:
            finished = sequence.finished("error", error=error)
            self._runner.scrub(self._scheduler.fail(sequence))
            self._outputs.append(Output(sequence.request.request_id, finished=finished))

    def _finish(self, sequence: Sequence, finished: Finished) -> None:
        self._end(sequence)
        self._outputs.append(Output(sequence.request.request_id, finished=finished))

    def _end(self, sequence: Sequence) -> None:
        self._scheduler.finish(sequence)
        now = self._clock()
        if self._ended_at is not None:
            self._pace += 0.1 * (min(60.0, now - self._ended_at) - self._pace)
        self._ended_at = now

    def _refuse(self, request: EngineRequest, error: KvrouteError) -> None:
        finished = Finished(reason="error", prompt_tokens=len(request.tokens), error=error)
        self._outputs.append(Output(request.request_id, finished=finished))

    def _report(self) -> StepReport | None:
        delta = self._scheduler.pool.take_delta()
        if not (self._outputs or delta.stored or delta.removed or delta.flushed):
            return None
        report = StepReport(tuple(self._outputs), _cache_delta(delta))
        self._outputs = []
        return report

    def _reset(self, error: Exception) -> None:
        """The bookkeeping broke: nothing of it is trusted any more. Everything ends, the cache
        starts empty.
        """
        old = self._scheduler
        known = {output.request_id for output in self._outputs if output.finished is not None}
        for sequence in [*old.running, *old.waiting]:
            if sequence.request.request_id not in known:
                finished = sequence.finished("error", error=_step_error(error))
                self._outputs.append(Output(sequence.request.request_id, finished=finished))
        self._evictions += old.pool.evictions
        self._scheduler = self._new_scheduler()
        self._scheduler.pool.flush()

    def _new_scheduler(self) -> Scheduler:
        options = self._options
        rng = Random(options.seed)
        evictor = create(options.evictor, options.blocks, rng)
        return Scheduler(options, BlockPool(options.blocks, evictor))


def _step_error(error: Exception) -> KvrouteError:
    text = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return KvrouteError(f"the worker failed in a step of this request: {text}")


def _cache_delta(delta: Delta) -> CacheDelta:
    """The pool's keys are opaque to it; here they are block keys again."""
    return CacheDelta(
        cast(tuple[BlockKey, ...], delta.stored),
        cast(tuple[BlockKey, ...], delta.removed),
        delta.flushed,
    )
