"""The simulated worker's arithmetic, by hand, and its queue."""

from __future__ import annotations

from random import Random

import pytest

from loadtest.sim.job import Job
from loadtest.sim.profile import Profile
from loadtest.sim.worker import Span, StepEnd, Worker
from loadtest.workloads.base import Call
from worker_svc.kv.block_pool import BlockPool
from worker_svc.kv.evict.registry import create

PROFILE = Profile(
    prefill_ms=0.1,
    attention_ms=1e-5,
    step_ms=20.0,
    idle_step_ms=5.0,
    decode_ms=0.5,
    kv_ms=0.001,
    chunk_tokens=256,
    max_running=4,
)


def worker(blocks: int = 64, look_ahead: bool = False, profile: Profile = PROFILE) -> Worker:
    pool = BlockPool(blocks, create("lru", blocks, Random(0)))
    return Worker(0, profile, pool, 16, look_ahead=look_ahead)


def call(number: int, prompt: int, output: int, first: int | None = None) -> Call:
    blocks = prompt // 16
    start = 1000 * number if first is None else first
    return Call(number, 0.0, prompt, output, tuple(range(start, start + blocks)), blocks)


def finish(one: Worker, now: float) -> tuple[float, StepEnd]:
    ends = one.start(now)
    assert ends is not None
    return ends, one.finish_step(ends)


def test_prefill_is_chunked_and_costs_tokens_and_attention() -> None:
    one = worker()
    job = Job(call(0, 320, 1), 0.0)
    one.enqueue(job, 0.0)
    now, end = finish(one, 0.0)
    assert now == pytest.approx(256 * 0.1 + 1e-5 * 256 * 128) and not end.first
    now, end = finish(one, now)
    second = 64 * 0.1 + 1e-5 * 64 * (256 + 32)
    assert now == pytest.approx(256 * 0.1 + 1e-5 * 256 * 128 + second)
    assert end.first == end.finished == [job]
    assert job.prefill_ms == pytest.approx(now)
    assert one.running == 0 and one.pool.counts().locked == 0


def test_short_prompts_pay_the_floor_of_a_step() -> None:
    one = worker()
    one.enqueue(Job(call(0, 16, 1), 0.0), 0.0)
    assert finish(one, 0.0)[0] == pytest.approx(5.0)


def test_decoding_is_taken_in_one_span_that_equals_single_steps() -> None:
    one = worker()
    job = Job(call(0, 100, 6), 0.0)
    one.enqueue(job, 0.0)
    now, end = finish(one, 0.0)
    assert end.first == [job] and not end.finished
    start = now
    now, end = finish(one, now)
    # Five more tokens; the context grows from 101 by one each step.
    expected = sum(20.0 + 0.5 + 0.001 * (101 + step) for step in range(5))
    assert now - start == pytest.approx(expected)
    assert end.finished == [job] and job.ended == now
    assert one.decode_means(job) == (1.0, pytest.approx(expected / 5))


def test_an_arrival_cuts_a_span_at_the_next_step() -> None:
    one = worker()
    first, second = Job(call(0, 100, 50), 0.0), Job(call(1, 32, 1), 0.0)
    one.enqueue(first, 0.0)
    now, _ = finish(one, 0.0)
    planned = one.start(now)
    assert planned is not None
    version = one.version
    cut = one.enqueue(second, now + 30.0)
    assert cut is not None and cut < planned and one.version == version + 1
    # Steps last 20.601, 20.602, ... ms: the one under way at 30 ms ends the span.
    assert cut - now == pytest.approx(20.601 + 20.602)
    end = one.finish_step(cut)
    assert not end.first and not end.finished
    ends, end = finish(one, cut)
    assert end.first == [second]
    # 32 tokens cost less than a decode step's floor.
    assert ends - cut == pytest.approx(20.0 + 0.5 + 0.001 * 103)
    while one.running:
        ends, end = finish(one, ends)
    # 49 tokens after the first, of which all steps but the shared one were pure decoding.
    assert one.decode_means(first)[0] == 1.0
    one.pool.check()


def test_span_finds_its_step() -> None:
    span = Span(100.0, 10.0, 2, 50, 0.1, 20)
    for steps in range(1, 21):
        assert span.steps_until(100.0 + span.duration(steps)) == steps
    assert span.steps_until(0.0) == 1
    assert span.steps_until(1e9) == 20


def test_a_second_request_hits_what_the_first_computes() -> None:
    one = worker()
    a, b = Job(call(0, 200, 1), 0.0), Job(call(1, 200, 1, first=0), 0.0)
    one.enqueue(a, 0.0)
    one.enqueue(b, 0.0)
    _, end = finish(one, 0.0)
    assert (a.hit, b.hit) == (0, 192)
    assert end.finished == [a, b]


def test_a_whole_hit_still_computes_the_end_of_the_prompt() -> None:
    one = worker()
    a, b = Job(call(0, 64, 1), 0.0), Job(call(1, 64, 1, first=0), 0.0)
    one.enqueue(a, 0.0)
    now, _ = finish(one, 0.0)
    one.enqueue(b, now)
    finish(one, now)
    assert b.hit == 48
    one.pool.check()


def test_what_does_not_fit_waits_and_what_never_fits_is_known() -> None:
    one = worker(blocks=16)
    a, b = Job(call(0, 160, 4), 0.0), Job(call(1, 160, 4), 0.0)
    assert not one.fits(Job(call(2, 300, 4), 0.0))
    one.enqueue(a, 0.0)
    one.enqueue(b, 0.0)
    now, end = finish(one, 0.0)
    assert one.running == 1 and list(one.waiting) == [b]
    while not b.ended > 0:
        now, end = finish(one, now)
    assert a.ended < b.first_token
    one.pool.check()


def test_a_lost_worker_gives_everything_back() -> None:
    one = worker()
    jobs = [Job(call(number, 100, 8), 0.0) for number in range(6)]
    for job in jobs:
        one.enqueue(job, 0.0)
    finish(one, 0.0)
    assert set(map(id, one.drop_all())) == set(map(id, jobs))
    counts = one.pool.counts()
    assert counts.free == counts.total and one.running == 0
    assert one.start(100.0) is None


def test_look_ahead_keeps_what_the_queue_wants() -> None:
    hits = []
    for look_ahead in (False, True):
        one = worker(blocks=40, look_ahead=look_ahead)
        now = 0.0
        for old in (call(0, 128, 1), call(3, 256, 1)):
            one.enqueue(Job(old, now), now)
            while one.waiting or one.running:
                now, _ = finish(one, now)
        # The next request needs seven blocks that are cached; the one behind it shares the oldest.
        one.enqueue(Job(call(1, 352, 1), 0.0), now)
        again = Job(call(2, 128, 1, first=0), 0.0)
        one.enqueue(again, now)
        while not again.ended > 0:
            now, _ = finish(one, now)
        hits.append(again.hit)
        one.pool.check()
    assert hits == [16, 112]
