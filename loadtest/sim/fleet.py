"""The event loop: calls arrive, routers choose, workers step; virtual time in milliseconds.

Events of one instant are taken in the order in which they were scheduled, so that a run depends on
its seed alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from random import Random

from loadtest.sim.index import EventIndex, HistoryIndex, Index
from loadtest.sim.job import Job
from loadtest.sim.learner import Learner
from loadtest.sim.ledger import Ledger
from loadtest.sim.options import Failure, FleetOptions
from loadtest.sim.result import Collector, RunResult
from loadtest.sim.router import Router
from loadtest.sim.timeline import Timeline
from loadtest.sim.worker import Worker
from loadtest.workloads.base import Call, Workload
from router_svc.policy.base import Costs, Policy
from router_svc.policy.registry import make
from worker_svc.kv.block_pool import BlockPool
from worker_svc.kv.evict.registry import create

HISTORY_BLOCKS = 1 << 22
Progress = Callable[[int], None]


class Simulation:
    """One run. `make_policy` is given for policies of your own; by default the spec's."""

    def __init__(
        self,
        workload: Workload,
        options: FleetOptions,
        make_policy: Callable[[], Policy] | None = None,
    ) -> None:
        self._options = options
        self._block_size = workload.block_size
        self._calls = workload.calls()
        self._events: list[tuple[float, int, str, object]] = []
        self._count = 0
        self._workers = [self._worker(number) for number in range(options.workers)]
        self._alive = list(range(options.workers))
        self._learner = Learner(options.workers, Costs(), options.learning)
        self._ledger = Ledger(options.workers, options.routers, options.ledger_lag_ms)
        self._routers = [
            Router(
                number,
                (make_policy or (lambda: make(options.policy)))(),
                [self._index() for _ in range(options.workers)],
                self._ledger,
                self._learner,
                self._block_size,
                options.routers,
                options.seed,
            )
            for number in range(options.routers)
        ]
        self._result = Collector()
        self._timeline = Timeline(self._workers)
        self._orphans: list[Job] = []

    def run(self, progress: Progress | None = None) -> RunResult:
        """Runs until every call is answered. `progress` gets the number of calls done so far."""
        for failure in self._options.failures:
            self._schedule(failure.at_s * 1000.0, "fail", failure)
        self._pull()
        now = 0.0
        while self._events:
            now, _, kind, item = heapq.heappop(self._events)
            if now >= self._timeline.next_ms:
                self._timeline.sample(now)
            if kind == "call":
                assert isinstance(item, Call)
                self._arrive(Job(item, now), now)
            elif kind == "first":
                assert isinstance(item, Call)
                self._pull()
                self._arrive(Job(item, now), now)
            elif kind == "step":
                assert isinstance(item, tuple)
                self._step_end(item[0], item[1], now)
                if progress is not None:
                    progress(self._result.count)
            elif kind == "fail":
                assert isinstance(item, Failure)
                self._fail(item, now)
            else:
                assert isinstance(item, int)
                self._back(item, now)
        self._ledger.check_idle()
        return self._result.result(self._workers, now, self._timeline.samples())

    def check(self) -> None:
        """Raises when a pool's bookkeeping is inconsistent."""
        for worker in self._workers:
            worker.pool.check()

    def _worker(self, number: int) -> Worker:
        options = self._options
        rng = Random(f"evictor/{number}/{options.seed}")
        pool = BlockPool(options.blocks, create(options.evictor, options.blocks, rng))
        return Worker(
            number,
            options.profile,
            pool,
            self._block_size,
            slowness=options.slowness_of(number),
            look_ahead=options.look_ahead,
            hints=options.hints,
        )

    def _index(self) -> Index:
        options = self._options
        if options.index == "history":
            return HistoryIndex(HISTORY_BLOCKS)
        return EventIndex(options.index_delay_ms, options.in_flight)

    def _schedule(self, when: float, kind: str, item: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, kind, item))

    def _pull(self) -> None:
        """The next call of the stream becomes an event; the stream is never read further ahead."""
        call = next(self._calls, None)
        if call is not None:
            self._schedule(call.at * 1000.0 * self._options.stretch, "first", call)

    def _arrive(self, job: Job, now: float) -> None:
        job.router = job.call.number % len(self._routers)
        if not self._alive:
            self._orphans.append(job)
            return
        job.attempts += 1
        number = self._routers[job.router].route(job, self._alive, now)
        worker = self._workers[number]
        if not worker.fits(job):
            self._routers[job.router].ended(job, now, failed=True)
            self._result.refused(job)
            return
        self._step_scheduled(worker, worker.enqueue(job, now))
        self._start(worker, now)

    def _start(self, worker: Worker, now: float) -> None:
        self._step_scheduled(worker, worker.start(now))
        self._publish(worker, now)

    def _step_scheduled(self, worker: Worker, ends: float | None) -> None:
        if ends is not None:
            self._schedule(ends, "step", (worker.number, worker.version))

    def _publish(self, worker: Worker, now: float) -> None:
        delta = worker.take_delta()
        if delta.stored or delta.removed or delta.flushed:
            for router in self._routers:
                router.indexes[worker.number].changed(delta, now)

    def _step_end(self, number: int, version: int, now: float) -> None:
        worker = self._workers[number]
        if worker.version != version:
            return
        end = worker.finish_step(now)
        for job in end.first:
            self._routers[job.router].first_token(job, now)
        for job in end.finished:
            self._finished(worker, job, now)
        self._start(worker, now)

    def _finished(self, worker: Worker, job: Job, now: float) -> None:
        call = job.call
        batch, step_ms = worker.decode_means(job) if call.output_tokens > 1 else (0.0, 0.0)
        miss = call.prompt_tokens - job.hit
        prefill = job.prefill_ms if job.attempts == 1 else 0.0
        self._learner.observe(
            worker.number, job.hit, miss, prefill, batch, step_ms, call.output_tokens
        )
        self._routers[job.router].ended(job, now)
        self._result.finished(job)
        after = call.next
        if after is not None:
            pause = after.think_s * 1000.0 * self._options.stretch
            self._schedule(now + pause, "call", after)

    def _fail(self, failure: Failure, now: float) -> None:
        worker = self._workers[failure.worker]
        if failure.worker not in self._alive:
            return
        self._alive.remove(failure.worker)
        lost = worker.drop_all()
        worker.take_delta()
        for router in self._routers:
            router.indexes[failure.worker].clear()
        for job in lost:
            self._routers[job.router].ended(job, now, failed=True)
            self._arrive(_again(job, now), now)
        self._schedule(now + failure.down_s * 1000.0, "back", failure.worker)

    def _back(self, number: int, now: float) -> None:
        self._alive.append(number)
        self._alive.sort()
        self._learner.restart(number)
        orphans, self._orphans = self._orphans, []
        for job in orphans:
            self._arrive(job, now)


def _again(job: Job, now: float) -> Job:
    """The same request for another worker, from the start; it arrived when it first arrived."""
    return replace(Job(job.call, job.arrived), attempts=job.attempts, first_token=job.first_token)


def simulate(
    workload: Workload, options: FleetOptions, progress: Progress | None = None
) -> RunResult:
    """Runs `workload` on the fleet of `options`."""
    return Simulation(workload, options).run(progress)
