"""Untimed replay: known hit rates, and Belady above everybody."""

from __future__ import annotations

import pytest

from loadtest.sim.future import NEVER, Future, with_oracle_hints
from loadtest.sim.replay import BELADY, Replay
from loadtest.workloads.base import Call, summarize
from loadtest.workloads.chat import Chat, chat
from loadtest.workloads.gsp import Gsp, gsp
from loadtest.workloads.scans import Cyclic, cyclic
from worker_svc.kv.evict.registry import EVICTORS

SMALL = list(gsp(Gsp(groups=20, prompts=12, lengths=(128, 256, 512)), 1).flat())


def rate(calls: list[Call], evictor: str, blocks: int, **options: int | bool) -> float:
    replay = Replay(calls, 16, evictor, blocks, **options)  # type: ignore[arg-type]
    found = replay.run().hit_rate
    replay.pool.check()
    return found


@pytest.mark.parametrize("evictor", sorted(EVICTORS))
@pytest.mark.parametrize("concurrent", [1, 8])
def test_no_evictor_beats_belady_or_an_endless_cache(evictor: str, concurrent: int) -> None:
    bound = rate(SMALL, BELADY, 120, concurrent=concurrent)
    assert rate(SMALL, evictor, 120, concurrent=concurrent) <= bound
    assert bound < summarize(SMALL, 16).endless_hit_rate


@pytest.mark.parametrize("evictor", [*sorted(EVICTORS), BELADY])
def test_a_cache_that_holds_everything_hits_like_an_endless_one(evictor: str) -> None:
    summary = summarize(SMALL, 16)
    assert rate(SMALL, evictor, summary.distinct_blocks) == summary.endless_hit_rate


def test_lru_never_hits_on_a_cycle_that_does_not_fit_and_rlt_does() -> None:
    calls = list(cyclic(Cyclic(documents=16, length=256, rounds=10)).flat())
    assert rate(calls, "lru", 240) == 0.0
    assert rate(calls, "rlt", 240) > 0.3
    assert rate(calls, BELADY, 240) > rate(calls, "rlt", 240)


def test_oracle_hints_and_look_ahead_help_lru() -> None:
    hinted = list(with_oracle_hints(SMALL, Future(SMALL)))
    plain = rate(SMALL, "lru", 120)
    assert rate(hinted, "lru", 120, hints=True) > plain + 0.05
    assert rate(SMALL, "lru", 120, look_ahead=32) > plain + 0.02


def test_session_ends_are_hints_clients_can_give() -> None:
    calls = list(chat(Chat(sessions=60, user=(64, 128)), 1).flat())
    assert rate(calls, "lru", 1200, hints=True) >= rate(calls, "lru", 1200)


def test_future_knows_next_and_last_use() -> None:
    calls = [
        Call(i, float(i), 32, 1, blocks, 2) for i, blocks in enumerate([(1, 2), (3, 4), (1, 5)])
    ]
    future = Future(calls)
    assert future.next_use(1, -1) == 0 and future.next_use(1, 0) == 2
    assert future.next_use(1, 2) == NEVER and future.next_use(9, 0) == NEVER
    assert future.last_use(1) == 2
    assert [call.dead_from for call in with_oracle_hints(calls, future)] == [1, 0, 0]


def test_what_is_longer_than_the_cache_is_counted_not_served() -> None:
    result = Replay(SMALL, 16, "lru", 20).run()
    assert result.refused == sum(call.prompt_blocks > 20 for call in SMALL) > 0
