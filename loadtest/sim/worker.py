"""A simulated worker: continuous batching and chunked prefill over the real block pool.

Requests are served in order of arrival. A request is admitted when its prompt's misses and its
answer fit: their blocks are taken at once, so that nothing is ever preempted, and the prompt's
blocks are cached at admission: what a running request computes is not computed twice, as in the
engine, which lets the second request wait instead.

Steps in which nothing but decoding happens are taken many at a time (`Span`): their total time has
a closed form, and an arrival cuts the span at the next step boundary.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass

from loadtest.sim.job import Job
from loadtest.sim.lookahead import LookAhead
from loadtest.sim.profile import Profile
from worker_svc.kv.base import Delta
from worker_svc.kv.block_pool import BlockPool


@dataclass(frozen=True, slots=True)
class Span:
    """`steps` steps of pure decoding: n requests over kv tokens, n more with every step."""

    started: float
    base_ms: float
    n: int
    kv: int
    kv_ms: float
    steps: int

    def duration(self, steps: int) -> float:
        grown = self.kv * steps + self.n * steps * (steps - 1) // 2
        return steps * self.base_ms + self.kv_ms * grown

    def steps_until(self, now: float) -> int:
        """The fewest whole steps, at least 1, that end at or after `now`."""
        low, high = 1, self.steps
        while low < high:
            middle = (low + high) // 2
            if self.started + self.duration(middle) >= now:
                high = middle
            else:
                low = middle + 1
        return low


@dataclass(frozen=True, slots=True)
class StepEnd:
    """What came out of a step: requests whose first token is out, and those that are finished."""

    first: list[Job]
    finished: list[Job]


class Worker:
    """One worker; the fleet calls `enqueue`, `start` and `finish_step` in order of virtual time."""

    def __init__(
        self,
        number: int,
        profile: Profile,
        pool: BlockPool,
        block_size: int,
        *,
        slowness: float = 1.0,
        look_ahead: bool = False,
        hints: bool = False,
    ) -> None:
        self.number = number
        self.pool = pool
        self.version = 0
        """Tags the step under way: a finish with another version is void."""
        self.busy_ms = 0.0
        self.hit_tokens = 0
        self.prompt_tokens = 0
        self.waiting: deque[Job] = deque()
        self._profile = profile
        self._size = block_size
        self._slowness = slowness
        self._look_ahead = LookAhead(pool) if look_ahead else None
        self._hints = hints
        self._prefilling: list[Job] = []
        self._decoding: list[tuple[int, int, Job]] = []
        self._order = 0
        self._steps = 0
        self._kv = 0
        self._sums = (0.0, 0.0, 0)
        self._span: Span | None = None
        self._chunks: list[tuple[Job, int]] = []
        self._ends: float | None = None

    @property
    def running(self) -> int:
        return len(self._prefilling) + len(self._decoding)

    def fits(self, job: Job) -> bool:
        """Whether the request could ever run here."""
        tokens = job.call.prompt_tokens + job.call.output_tokens
        return -(-tokens // self._size) <= self.pool.total

    def enqueue(self, job: Job, now: float) -> float | None:
        """Queues it. The new end of the step under way if this cut a span short, else None."""
        self.waiting.append(job)
        if self._look_ahead is not None:
            self._look_ahead.add(job.call)
        span = self._span
        if span is None:
            return None
        steps = span.steps_until(now)
        if steps >= span.steps:
            return None
        self.busy_ms -= span.duration(span.steps) - span.duration(steps)
        self._span = Span(span.started, span.base_ms, span.n, span.kv, span.kv_ms, steps)
        self.version += 1
        self._ends = span.started + span.duration(steps)
        return self._ends

    def start(self, now: float) -> float | None:
        """Begins the next step if none is under way and there is work; returns when it ends."""
        if self._ends is not None:
            return None
        chunks, budget = self._plan_prefills()
        self._admit(chunks, budget)
        if not self.running:
            return None
        self.version += 1
        profile, n = self._profile, len(self._decoding)
        if chunks:
            duration = self._mixed_step(chunks, n)
        else:
            base = (profile.step_ms + profile.decode_ms * n) * self._slowness
            steps = self._decoding[0][0] - self._steps
            span = Span(now, base, n, self._kv, profile.kv_ms * self._slowness, steps)
            self._span = span
            duration = span.duration(steps)
        self._chunks = chunks
        self.busy_ms += duration
        self._ends = now + duration
        return self._ends

    def finish_step(self, now: float) -> StepEnd:
        """The step under way is over."""
        self._ends = None
        n = len(self._decoding)
        if self._span is not None:
            steps = self._span.steps
            spent = self._span.duration(steps)
            ms, requests, count = self._sums
            self._sums = (ms + spent, requests + n * steps, count + steps)
            self._span = None
        else:
            steps = 1
        self._steps += steps
        self._kv += n * steps
        finished = []
        while self._decoding and self._decoding[0][0] <= self._steps:
            job = heapq.heappop(self._decoding)[2]
            self._kv -= job.call.prompt_tokens + job.call.output_tokens
            finished.append(job)
        first = self._first_tokens(now, finished)
        for job in finished:
            job.ended = now
            self._finish(job)
        return StepEnd(first, finished)

    def decode_means(self, job: Job) -> tuple[float, float]:
        """Mean batch and mean ms of the pure decode steps the job took part in; (0, 0): none."""
        ms, requests, count = (a - b for a, b in zip(self._sums, job.decode_at, strict=True))
        return (requests / count, ms / count) if count else (0.0, 0.0)

    def take_delta(self) -> Delta:
        return self.pool.take_delta()

    def drop_all(self) -> list[Job]:
        """The worker is lost: everything it had to do. It holds nothing afterwards."""
        lost = [*self._prefilling, *(entry[2] for entry in sorted(self._decoding))]
        for job in lost:
            self.pool.release(job.table)
        lost += self.waiting
        self.waiting.clear()
        self._prefilling, self._decoding, self._chunks = [], [], []
        self._kv, self._span, self._ends = 0, None, None
        self.version += 1
        if self._look_ahead is not None:
            self._look_ahead.clear()
        self.pool.flush()
        return lost

    def _plan_prefills(self) -> tuple[list[tuple[Job, int]], int]:
        budget = self._profile.chunk_tokens
        chunks = []
        for job in self._prefilling:
            if budget <= 0:
                break
            count = min(budget, job.left)
            budget -= count
            chunks.append((job, count))
        return chunks, budget

    def _admit(self, chunks: list[tuple[Job, int]], budget: int) -> None:
        while self.waiting and budget > 0 and self.running < self._profile.max_running:
            job = self.waiting[0]
            admitted = self._take_blocks(job)
            if not admitted and self._look_ahead is not None:
                while not admitted and self._look_ahead.shed(job.call):
                    admitted = self._take_blocks(job)
            if not admitted:
                return
            self.waiting.popleft()
            if self._look_ahead is not None:
                self._look_ahead.drop(job.call)
                self._look_ahead.extend()
            count = min(budget, job.left)
            budget -= count
            self._prefilling.append(job)
            chunks.append((job, count))

    def _take_blocks(self, job: Job) -> bool:
        """Locks the match, takes and caches the rest of the prompt; False if it does not fit."""
        call, pool, size = job.call, self.pool, self._size
        blocks = call.blocks
        match = pool.match(blocks, min(call.prompt_blocks, (call.prompt_tokens - 1) // size))
        hits = len(match.blocks)
        need = -(-(call.prompt_tokens + call.output_tokens) // size) - hits
        if pool.available() - match.idle < need:
            return False
        pool.lock(match.blocks)
        table = match.blocks + pool.take(need)
        parent = table[hits - 1] if hits else None
        commit = pool.commit
        for index in range(hits, call.prompt_blocks):
            parent = table[index] = commit(table[index], blocks[index], parent)
        job.table = table
        job.hit = hits * size
        job.left = call.prompt_tokens - job.hit
        self.hit_tokens += job.hit
        self.prompt_tokens += call.prompt_tokens
        return True

    def _mixed_step(self, chunks: list[tuple[Job, int]], n: int) -> float:
        """Duration of a step with prompt chunks; books each job's share of it."""
        profile = self._profile
        costs = [
            profile.prefill_ms * count + profile.attention_ms * count * (job.position + count / 2.0)
            for job, count in chunks
        ]
        prefill = math.fsum(costs)
        floor = profile.step_ms if n else profile.idle_step_ms
        duration = max(floor, prefill) + (profile.decode_ms * n + profile.kv_ms * self._kv)
        share = (prefill if n else max(prefill, floor)) * self._slowness / prefill
        for (job, count), cost in zip(chunks, costs, strict=True):
            job.prefill_ms += share * cost
            job.left -= count
        return duration * self._slowness

    def _first_tokens(self, now: float, finished: list[Job]) -> list[Job]:
        first = [job for job, _ in self._chunks if job.left == 0]
        self._chunks = []
        if not first:
            return first
        self._prefilling = [job for job in self._prefilling if job.left]
        for job in first:
            if job.first_token < 0:
                job.first_token = now
            job.steps_at, job.decode_at = self._steps, self._sums
            if job.call.output_tokens <= 1:
                finished.append(job)
                continue
            self._order += 1
            ends = self._steps + job.call.output_tokens - 1
            heapq.heappush(self._decoding, (ends, self._order, job))
            self._kv += job.call.prompt_tokens + 1
        return first

    def _finish(self, job: Job) -> None:
        """Caches the answer's blocks where their ids are known, and lets go of everything."""
        call, table = job.call, job.table
        for index in range(call.prompt_blocks, len(call.blocks)):
            parent = table[index - 1] if index else None
            table[index] = self.pool.commit(table[index], call.blocks[index], parent)
        self.pool.release(table, call.dead_from if self._hints else None)
        job.table = []
        if self._look_ahead is not None:
            self._look_ahead.extend()
