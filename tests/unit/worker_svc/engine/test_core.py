"""The engine's core over a fake model: what it schedules, admits, refuses, and how requests end."""

from __future__ import annotations

from random import Random

import pytest

from cache_index.keys import KeySpace
from kvroute.errors import InvalidArgument, Mismatch, Overloaded
from tests.engine_driver import Collected, FakeClock, request, run
from tests.fake_runner import FakeRunner, expected
from worker_svc.base import EngineRequest, Sampling
from worker_svc.engine.core import EngineCore
from worker_svc.engine.options import EngineOptions
from worker_svc.kv.evict.registry import EVICTORS


def core_of(runner: FakeRunner | None = None, **options: object) -> EngineCore:
    settings = {"blocks": 64, "block_size": 4, "max_batch_tokens": 32, "max_running": 8} | options
    return EngineCore(runner or FakeRunner(), None, EngineOptions(**settings), FakeClock())  # type: ignore[arg-type]


def random_request(rng: Random, request_id: int) -> EngineRequest:
    head = [rng.randrange(1, 4)] * rng.choice([0, 8, 20])
    prompt = head + [rng.randrange(1, 101) for _ in range(rng.randrange(1, 30))]
    return EngineRequest(
        request_id,
        prompt,
        Sampling(max_tokens=rng.randrange(1, 20)),
        KeySpace("test", tenant=rng.choice(["", "a", "b"]), block_size=4),
        priority=rng.choice([0, 0, 0, 1]),
    )


def storm(seed: int, steps: int, evictor: str) -> list[tuple[object, ...]]:
    """Random arrivals, cancels and flushes on a small cache; checks everything after each step;
    returns the trace.
    """
    rng, collected, asked = Random(seed), Collected(), {}
    core = core_of(blocks=30, evictor=evictor, seed=seed, max_queue=6)
    trace: list[tuple[object, ...]] = []
    for step in range(steps):
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            asked[len(asked)] = random_request(rng, len(asked))
            core.submit(asked[len(asked) - 1])
        if rng.random() < 0.05:
            core.abort(rng.randrange(len(asked) + 1))
        if rng.random() < 0.005:
            core.flush_cache()
        report = core.step()
        collected.add(report)
        core.check()
        stats = core.stats()
        used = stats.free_blocks + stats.cached_blocks + stats.locked_blocks
        assert used == stats.total_blocks
        assert stats.running <= 8 and stats.waiting <= 6 + 8  # preempted ones come back
        trace.append((step, repr(report)))
    while core.has_work:
        collected.add(core.step())
        core.check()
    assert core.stats().locked_blocks == core.stats().waiting_tokens == 0
    assert set(collected.finished) == set(asked)
    for key, end in collected.finished.items():
        answer = expected(asked[key].tokens, asked[key].sampling.max_tokens)
        got = collected.tokens[key]
        assert got == answer[: len(got)]
        assert end.reason in ("length", "cancelled") or isinstance(end.error, Overloaded)
        assert (end.reason == "length") == (len(got) == len(answer)) or end.reason == "cancelled"
    stats = core.stats()
    assert stats.preemptions > steps // 300 and stats.evictions > steps // 20
    return trace


@pytest.mark.parametrize("evictor", ["arc_mix", "rlt"])
def test_a_storm_of_requests_loses_nothing(evictor: str) -> None:
    storm(3, 2000, evictor)


@pytest.mark.parametrize("evictor", sorted(EVICTORS))
def test_one_seed_gives_one_trace(evictor: str) -> None:
    assert storm(5, 300, evictor) == storm(5, 300, evictor)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("evictor", sorted(EVICTORS))
def test_a_long_storm_loses_nothing(evictor: str, seed: int) -> None:
    storm(seed, 20_000, evictor)


def test_steps_keep_to_their_budget_and_decodes_come_first() -> None:
    runner = FakeRunner()
    core = core_of(runner, max_batch_tokens=10)
    asked = [request(i, [i + 1] * 25, 4, max_tokens=10) for i in range(4)]
    run(core, asked)
    assert all(sum(step) <= 10 for step in runner.steps)
    assert all(sorted(step, key=lambda count: count != 1) == step for step in runner.steps)
    assert any(1 in step and max(step) > 1 for step in runner.steps)


def test_generated_tokens_are_cached_for_the_next_turn() -> None:
    core = core_of()
    first = run(core, [request(1, [5] * 10, 4, max_tokens=11)])
    talk = [5] * 10 + first.tokens[1] + [7, 7, 7]
    second = run(core, [request(2, talk, 4, max_tokens=2)], cached=first.cached)
    assert second.admitted[2].cached_tokens == 20
    assert second.tokens[2] == expected(talk, 2)


def test_one_token_is_always_left_to_compute() -> None:
    core = core_of()
    first = run(core, [request(1, [5] * 16, 4, max_tokens=1)])
    second = run(core, [request(2, [5] * 16, 4, max_tokens=1)], cached=first.cached)
    assert second.admitted[2].cached_tokens == 12


def test_a_prompt_waits_for_the_same_prompt_in_flight() -> None:
    runner = FakeRunner()
    core = core_of(runner, max_batch_tokens=16)
    asked = [request(i, [9] * 40 + [i + 1], 4, max_tokens=3) for i in range(4)]
    got = run(core, asked)
    assert [got.admitted[i].cached_tokens for i in range(4)] == [0, 40, 40, 40]
    assert all(got.tokens[i] == expected(asked[i].tokens, 3) for i in range(4))


def test_tenants_share_nothing() -> None:
    core = core_of()
    spaces = [KeySpace("test", tenant=name, block_size=4) for name in ("a", "b")]
    got = Collected()
    for i, space in enumerate(spaces):
        core.submit(EngineRequest(i, [5] * 20, Sampling(max_tokens=1), space))
        got = run(core, [], cached=got.cached)
        assert got.admitted[i].cached_tokens == 0


def test_a_tenant_that_floods_does_not_starve_another() -> None:
    core = core_of(max_running=1, max_queue=200)
    flood = KeySpace("test", tenant="flood", block_size=4)
    quiet = KeySpace("test", tenant="quiet", block_size=4)
    for i in range(50):
        core.submit(EngineRequest(i, [i + 1] * 8, Sampling(max_tokens=1), flood))
    core.submit(EngineRequest(99, [99] * 8, Sampling(max_tokens=1), quiet))
    order = list(run(core, []).finished)
    assert order.index(99) <= 2


def test_higher_priority_goes_first_and_waiting_lifts_the_lower() -> None:
    core = core_of(max_running=1)
    space = KeySpace("test", block_size=4)
    for i, priority in enumerate([0, 0, 5]):
        core.submit(EngineRequest(i, [i + 1] * 8, Sampling(max_tokens=4), space, priority))
    assert list(run(core, []).finished) == [2, 0, 1]

    clock = FakeClock()
    core = EngineCore(
        FakeRunner(), None, EngineOptions(blocks=64, block_size=4, max_running=1), clock
    )
    core.submit(EngineRequest(0, [1] * 8, Sampling(max_tokens=4), space, 0))
    clock.now += 60
    core.submit(EngineRequest(1, [2] * 8, Sampling(max_tokens=4), space, 5))
    assert list(run(core, []).finished) == [0, 1]


def test_a_full_queue_is_refused_with_a_time_to_retry() -> None:
    core = core_of(max_queue=2)
    for i in range(4):
        core.submit(request(i, [1] * 8, 4, max_tokens=2))
    got = run(core, [])
    refused = [end.error for end in got.finished.values() if end.reason == "error"]
    assert len(refused) == 2
    assert all(isinstance(error, Overloaded) and error.retry_after_ms >= 100 for error in refused)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (request(1, [1] * 200, 4, max_tokens=100), "token_ids + max_tokens"),
        (request(1, [], 4), "token_ids"),
        (request(1, [1, 101], 4), "token_ids"),
        (request(1, [1], 4, max_tokens=0), "sampling.max_tokens"),
        (request(1, [1] * 10_000, 4), "token_ids + max_tokens"),
        (request(1, [1], 4, stop=("x",)), "sampling.stop"),
    ],
)
def test_what_can_never_run_is_refused_naming_the_field(wrong: EngineRequest, field: str) -> None:
    core = core_of()
    error = run(core, [wrong]).finished[1].error
    assert isinstance(error, InvalidArgument) and error.field == field


def test_keys_of_another_block_size_are_refused() -> None:
    error = run(core_of(), [request(1, [1] * 9, 16)]).finished[1].error
    assert isinstance(error, Mismatch)


def test_the_largest_request_that_fits_runs_alone() -> None:
    core = core_of(blocks=8)
    asked = [request(i, [i + 1] * 20, 4, max_tokens=13) for i in range(3)]
    got = run(core, asked)
    assert all(got.tokens[i] == expected(asked[i].tokens, 13) for i in range(3))


def test_abort_in_every_state_gives_all_blocks_back() -> None:
    core = core_of(max_running=2, max_batch_tokens=8)
    for i in range(4):
        core.submit(request(i, [i + 1] * 20, 4, max_tokens=50))
    got = Collected()
    got.add(core.step())  # 0 in prefill, the others wait
    core.abort(0)
    core.abort(3)
    for _ in range(8):
        got.add(core.step())
    core.abort(1)  # decoding
    core.abort(77)  # unknown
    got.add(core.step())
    core.abort(2)
    got.add(core.step())
    assert {key: end.reason for key, end in got.finished.items()} == dict.fromkeys(
        range(4), "cancelled"
    )
    core.check()
    assert core.stats().locked_blocks == 0 and not core.has_work


def test_a_row_that_is_not_finite_fails_alone_and_is_not_cached() -> None:
    runner = FakeRunner(broken=lambda tokens: tokens[0] == 13)
    core = core_of(runner)
    good, bad = request(1, [5] * 18, 4, max_tokens=6), request(2, [13] * 18, 4, max_tokens=6)
    got = run(core, [good, bad])
    assert got.tokens[1] == expected(good.tokens, 6)
    assert got.finished[2].reason == "error" and got.finished[2].error is not None
    assert len(runner.scrubbed) == 5
    again = run(core, [request(3, [13] * 18, 4)], cached=got.cached)
    assert again.admitted[3].cached_tokens == 0


def test_an_exception_fails_the_requests_of_its_step_and_the_engine_lives() -> None:
    runner = FakeRunner()
    core = core_of(runner)
    core.submit(request(1, [5] * 10, 4, max_tokens=6))
    got = Collected()
    got.add(core.step())
    runner.explode = True
    got.add(core.step())
    error = got.finished[1].error
    assert error is not None and "boom" in str(error)
    core.check()
    after = run(core, [request(2, [5] * 10, 4, max_tokens=6)])
    assert after.tokens[2] == expected([5] * 10, 6)


def test_broken_bookkeeping_ends_everything_and_starts_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = core_of()
    core.submit(request(1, [5] * 10, 4, max_tokens=6))
    core.step()
    with monkeypatch.context() as patch:
        patch.setattr(core._scheduler, "schedule", lambda now: 1 / 0)
        report = core.step()
    assert report is not None and report.delta.flushed
    assert report.outputs[0].finished is not None
    assert run(core, [request(2, [5] * 10, 4)]).finished[2].reason == "length"


def test_flush_empties_the_cache_and_reports_it() -> None:
    core = core_of()
    run(core, [request(1, [5] * 16, 4, max_tokens=1)])
    core.flush_cache()
    report = core.step()
    assert report is not None and report.delta.flushed and not report.delta.stored
    assert core.stats().cached_blocks == 0


def test_a_stream_goes_on_where_another_worker_left_it() -> None:
    whole = expected([5] * 10, 12)
    for done in range(1, 12):
        resumed = EngineRequest(
            1,
            [5] * 10 + whole[:done],
            Sampling(max_tokens=12),
            KeySpace("test", block_size=4),
            resumed_tokens=done,
        )
        got = run(core_of(), [resumed])
        assert got.tokens[1] == whole[done:]
        assert got.finished[1].prompt_tokens == 10 and got.finished[1].completion_tokens == 12


def test_resumed_tokens_that_reach_the_end_end_at_once() -> None:
    whole = expected([5] * 10, 12)
    resumed = EngineRequest(
        1, [5] * 10 + whole, Sampling(max_tokens=12), KeySpace("t", block_size=4), resumed_tokens=12
    )
    got = run(core_of(), [resumed])
    assert got.tokens[1] == [] and got.finished[1].reason == "length"


def test_stop_tokens_end_a_sequence_unless_it_is_too_early() -> None:
    whole = expected([5] * 10, 12)
    stop = frozenset({whole[4]})
    got = run(core_of(), [request(1, [5] * 10, 4, max_tokens=12, stop_token_ids=stop)])
    assert got.tokens[1] == whole[:5]
    assert got.finished[1].reason == "stop" and got.finished[1].stop_reason == str(whole[4])


def test_end_of_text_stops_unless_ignored() -> None:
    whole = expected([5] * 10, 12)
    runner = FakeRunner()
    runner.eos = frozenset({whole[2]})
    got = run(core_of(runner), [request(1, [5] * 10, 4, max_tokens=12)])
    assert got.tokens[1] == whole[:3] and got.finished[1].reason == "stop"
    got = run(core_of(runner), [request(1, [5] * 10, 4, max_tokens=12, ignore_eos=True)])
    assert got.tokens[1] == whole


def test_times_add_up() -> None:
    core = core_of(max_batch_tokens=8)
    got = run(core, [request(i, [i + 1] * 20, 4, max_tokens=5) for i in range(3)])
    for end in got.finished.values():
        assert end.prefill_ms > 0 and end.decode_ms > 0 and end.queue_ms >= 0
        assert 1 <= end.batch_size <= 8 and end.step_ms > 0
    # The fake clock ticks twice around each step: the shares of all requests cover all steps.
    total = sum(end.prefill_ms + end.decode_ms for end in got.finished.values())
    assert total == pytest.approx(core.stats().steps * 1.0, rel=0.01)


def test_blocks_of_queued_requests_outlive_the_wait() -> None:
    """Without look-ahead locks the requests before it would push its prefix out."""
    hits = []
    for share in (0.0, 0.5):
        core = core_of(blocks=24, max_running=1, evictor="lru", look_ahead=share)
        got = run(core, [request(0, [9] * 32, 4, max_tokens=1)])
        for i in range(1, 5):
            core.submit(request(i, [i] * 60, 4, max_tokens=1))
        core.submit(request(5, [9] * 32 + [1], 4, max_tokens=1))
        got = run(core, [], cached=got.cached)
        hits.append(got.admitted[5].cached_tokens)
    assert hits == [0, 32]


def test_look_ahead_locks_never_block_the_head() -> None:
    core = core_of(blocks=24, max_running=2, look_ahead=1.0)
    got = run(core, [request(i, [i + 1] * 40, 4, max_tokens=1) for i in range(2)])
    asked = [request(9, [50] * 80, 4, max_tokens=8)]
    asked += [request(10 + i, [i + 1] * 40 + [7], 4, max_tokens=8) for i in range(2)]
    for one in asked:
        core.submit(one)
    got = run(core, [], cached=got.cached)
    assert list(got.finished)[0] == 9
    assert all(got.tokens[one.request_id] == expected(one.tokens, 8) for one in asked)


def test_blocks_hinted_dead_go_before_older_ones() -> None:
    core = core_of(blocks=20, evictor="lru")
    space = KeySpace("test", block_size=4)
    kept = run(core, [request(1, [1] * 24, 4, max_tokens=1)])
    dead = EngineRequest(2, [2] * 24, Sampling(max_tokens=1), space, dead_from=8)
    got = run(core, [dead], cached=kept.cached)
    got = run(core, [request(3, [3] * 44, 4, max_tokens=1)], cached=got.cached)
    again = run(core, [request(4, [1] * 24, 4, max_tokens=1)], cached=got.cached)
    assert again.admitted[4].cached_tokens == 20
    again = run(core, [request(5, [2] * 24, 4, max_tokens=1)], cached=got.cached)
    assert again.admitted[5].cached_tokens == 8
