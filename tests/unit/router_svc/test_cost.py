"""The LBGR+ formula, term by term, with numbers worked out by hand."""

from __future__ import annotations

from random import Random

import pytest

from router_svc.policy.base import Candidate, Costs, Fleet, Request
from router_svc.policy.cost import decode_ms, kappa, miss_weight, prefill_ms, priced
from router_svc.policy.lbgr_plus import LbgrPlus

COSTS = Costs(base_ms=2.0, hit_ms=1.0, miss_ms=100.0, attention=0.0, step_base_ms=20.0, step_ms=0.5)


def test_prefill_adds_base_hits_and_misses() -> None:
    assert prefill_ms(COSTS, 1000, 0) == pytest.approx(2.0 + 100.0)
    assert prefill_ms(COSTS, 1000, 600) == pytest.approx(2.0 + 0.6 + 40.0)


def test_a_whole_hit_still_computes_one_token() -> None:
    assert prefill_ms(COSTS, 1000, 1000) == prefill_ms(COSTS, 1000, 999)


def test_attention_grows_with_miss_times_context() -> None:
    costs = Costs(base_ms=0.0, hit_ms=0.0, miss_ms=100.0, attention=1e-3)
    # 100 ms for 1000 tokens, and 1e-3 * 0.1 * 1000 * (1000 - 500) = 50 ms of attention.
    assert prefill_ms(costs, 1000, 0) == pytest.approx(150.0)


def test_prefill_never_costs_less_than_half_a_millisecond() -> None:
    assert prefill_ms(Costs(base_ms=-50.0, attention=0.0), 10, 0) == 0.5


def test_decode_charges_itself_and_the_others() -> None:
    # (O - 1) / 2 = 10 steps; each 20 + 0.5 * (2 * 3 + 1) ms.
    assert decode_ms(COSTS, 3, 21.0) == pytest.approx(10 * 23.5)


@pytest.mark.parametrize(
    ("queues", "value"), [((0.0, 900.0), 3.0), ((500.0, 900.0), 8.0), ((9000.0, 5000.0), 16.0)]
)
def test_kappa_grows_with_the_least_queue(queues: tuple[float, ...], value: float) -> None:
    assert kappa(queues) == pytest.approx(value)


def test_weight_of_a_miss_that_others_hold_shrinks_with_reuse() -> None:
    # 1000 tokens, best hit 800, this worker 0: 800 / n + 200 of 1000 count.
    assert miss_weight(1000, 0, 800, 1.0) == pytest.approx(1.0)
    assert miss_weight(1000, 0, 800, 8.0) == pytest.approx(0.3)
    assert miss_weight(1000, 800, 800, 8.0) == pytest.approx(1.0)
    assert miss_weight(1000, 1000, 1000, 8.0) == 1.0


def fleet(*candidates: Candidate, mean_output: float = 1.0) -> Fleet:
    return Fleet(candidates, mean_output)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_longer_hit_wins_in_either_order(reverse: bool) -> None:
    short = Candidate("a", 0, hit=16, costs=COSTS)
    long = Candidate("b", 1, hit=80, costs=COSTS)
    pair = (long, short) if reverse else (short, long)
    decision = LbgrPlus().choose(Request(200), fleet(*pair), Random(0))
    assert decision.chosen.candidate is long


def test_a_long_queue_beats_a_long_hit() -> None:
    warm = Candidate("warm", 0, hit=960, queue_ms=10_000.0, costs=COSTS)
    idle = Candidate("idle", 1, hit=0, costs=COSTS)
    decision = LbgrPlus().choose(Request(1000), fleet(warm, idle), Random(0))
    assert decision.chosen.candidate is idle
    assert "warm" in decision.reason


def test_ties_are_spread_by_the_generator() -> None:
    twins = fleet(*(Candidate(f"w{i}", i, costs=COSTS) for i in range(4)))
    rng = Random(7)
    seen = {
        LbgrPlus().choose(Request(100), twins, rng).chosen.candidate.worker_id for _ in range(64)
    }
    assert seen == {"w0", "w1", "w2", "w3"}


def test_cost_is_the_sum_of_its_terms() -> None:
    one = Candidate("a", 0, hit=0, queue_ms=30.0, outstanding=2, costs=COSTS)
    factor, (price,) = priced(Request(1000), fleet(one, mean_output=11.0), (one,))
    assert factor == pytest.approx(3.3)
    assert price.cost == pytest.approx(30.0 + (1 + 3.3) * 102.0 + 5 * (20 + 0.5 * 5))
