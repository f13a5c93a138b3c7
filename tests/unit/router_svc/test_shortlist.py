"""A decision of LBGR+ looks at eight workers whatever the fleet's size, and at the right ones."""

from __future__ import annotations

from random import Random

from router_svc.policy.base import Candidate, Costs, Fleet, Request
from router_svc.policy.cost import priced
from router_svc.policy.lbgr_plus import LbgrPlus
from router_svc.policy.shortlist import SIZE, shortlist


def test_ten_thousand_fleets_of_any_size_price_at_most_eight() -> None:
    rng, policy = Random(11), LbgrPlus()
    for _ in range(10_000):
        size = rng.choice((1, 2, 8, 9, 20, 40))
        length = rng.randrange(1, 4000)
        fleet = Fleet(
            [
                Candidate(
                    f"w{i}",
                    i,
                    hit=rng.choice((0, rng.randrange(length))),
                    queue_ms=rng.choice((0.0, rng.uniform(0.0, 2000.0))),
                    outstanding=rng.randrange(20),
                )
                for i in range(size)
            ]
        )
        request = Request(length, reuse=rng.choice((0.0, 3.0)))
        decision = policy.choose(request, fleet, rng)
        assert len(decision.prices) == min(size, SIZE)
        _, everyone = priced(request, fleet, fleet.candidates)
        best = min(price.cost for price in everyone)
        longest = max(fleet.candidates, key=lambda one: one.hit).hit
        listed = [price.candidate for price in decision.prices]
        assert max(one.hit for one in listed) == longest
        assert min(one.queue_ms for one in listed) == min(one.queue_ms for one in fleet.candidates)
        assert decision.chosen.cost >= best
        if size <= SIZE:
            assert decision.chosen.cost <= best + 1e-6


def test_shortlist_is_the_whole_of_a_small_fleet() -> None:
    workers = [Candidate(f"w{i}", i) for i in range(SIZE)]
    assert shortlist(workers, Random(0)) == workers


GOLDEN = [
    # (hits, queues in ms, outstanding, speed, reuse) of 2048 tokens -> worker
    (((0, 0, 0), (0.0, 0.0, 50.0), (1, 0, 0), (1, 1, 1), 0.0), 1),
    (((1024, 0, 0), (300.0, 0.0, 0.0), (2, 0, 0), (1, 1, 1), 0.0), 0),
    (((1024, 0, 0), (600.0, 0.0, 100.0), (4, 0, 0), (1, 1, 1), 0.0), 1),
    (((1024, 0, 0), (300.0, 0.0, 9.0), (2, 0, 0), (1, 1, 1), 8.0), 1),
    (((1024, 512, 0), (900.0, 600.0, 600.0), (6, 4, 4), (1, 1, 1), 0.0), 0),
    (((1024, 1024, 0), (0.0, 0.0, 0.0), (0, 0, 0), (2, 1, 1), 0.0), 1),
    (((0, 0, 0), (0.0, 120.0, 0.0), (0, 1, 0), (3, 1, 3), 0.0), 1),
]


def test_golden_decisions() -> None:
    for (hits, queues, outstanding, speeds, reuse), expected in GOLDEN:
        fleet = Fleet(
            [
                Candidate(
                    f"w{i}",
                    i,
                    hit=hits[i],
                    queue_ms=queues[i],
                    outstanding=outstanding[i],
                    costs=Costs(miss_ms=110.0 * speeds[i], step_base_ms=20.0 * speeds[i]),
                )
                for i in range(3)
            ]
        )
        decision = LbgrPlus().choose(Request(2048, reuse=reuse), fleet, Random(5))
        assert decision.chosen.candidate.slot == expected, (hits, queues)
