"""What every policy promises, and what each does."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import router_svc.policy
from router_svc.policy.arrivals import ArrivalCounter
from router_svc.policy.base import Candidate, Fleet, Request
from router_svc.policy.registry import POLICIES, make
from router_svc.policy.shortlist import SIZE, shortlist


def random_fleet(rng: Random, workers: int) -> Fleet:
    return Fleet(
        [
            Candidate(
                f"w{i}",
                i,
                hit=rng.choice((0, rng.randrange(512))),
                queue_ms=rng.choice((0.0, rng.uniform(0, 500))),
                outstanding=rng.randrange(8),
            )
            for i in range(workers)
        ]
    )


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_chooses_one_of_the_fleet_and_shortlists_it(name: str) -> None:
    policy, rng = make(name), Random(1)
    for _ in range(200):
        fleet = random_fleet(rng, rng.randrange(1, 40))
        decision = policy.choose(Request(512), fleet, rng)
        assert decision.chosen.candidate in fleet.candidates
        assert decision.chosen in decision.shortlist
        assert set(map(id, decision.shortlist)) <= set(map(id, decision.prices))
        assert 1 <= len(decision.prices) <= SIZE


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_same_generator_same_decisions(name: str) -> None:
    def trace() -> list[str]:
        policy, rng = make(name), Random(3)
        return [
            policy.choose(Request(512), random_fleet(rng, 12), rng).chosen.candidate.worker_id
            for _ in range(50)
        ]

    assert trace() == trace()


def test_round_robin_takes_turns_whatever_the_order() -> None:
    policy, rng = make("round_robin"), Random(0)
    workers = [Candidate(f"w{i}", i, hit=i * 100) for i in range(3)]
    chosen = []
    for _ in range(6):
        rng.shuffle(workers)
        chosen.append(policy.choose(Request(512), Fleet(workers), rng).chosen.candidate.worker_id)
    assert chosen == ["w0", "w1", "w2"] * 2


def test_random_reaches_everybody_about_equally() -> None:
    policy, rng = make("random"), Random(0)
    fleet = Fleet([Candidate(f"w{i}", i) for i in range(4)])
    counts = Counter(
        policy.choose(Request(64), fleet, rng).chosen.candidate.worker_id for _ in range(4000)
    )
    assert len(counts) == 4
    assert min(counts.values()) > 850


def test_shortlist_holds_the_longest_hits_and_the_shortest_queues() -> None:
    workers = [Candidate(f"w{i}", i, hit=i, queue_ms=float(i)) for i in range(100)]
    chosen = {one.slot for one in shortlist(workers, Random(0))}
    assert chosen == {96, 97, 98, 99, 0, 1, 2, 3}


def test_shortlist_fills_up_when_hits_and_queues_agree() -> None:
    workers = [Candidate(f"w{i}", i, hit=100 - i, queue_ms=float(i)) for i in range(20)]
    assert {one.slot for one in shortlist(workers, Random(0))} == set(range(8))


def test_arrivals_decay_and_are_bounded() -> None:
    counter = ArrivalCounter(capacity=2, decay_s=2.0)
    assert counter.arrive(1, 0.0) == 0.0
    assert counter.arrive(1, 0.0) == 1.0
    assert counter.arrive(1, 2.0) == pytest.approx(2 / 2.718281828)
    counter.arrive(2, 2.0)
    counter.arrive(3, 2.0)
    assert len(counter) == 2
    assert counter.arrive(1, 2.0) == 0.0


def test_a_burst_on_a_new_prefix_is_counted_from_its_first_prompt() -> None:
    counter = ArrivalCounter(decay_s=2.0)
    shared = [1, 2, 3]
    assert counter.arrive_prompt([*shared, 40], 0, 0.0) == 0.0
    assert counter.arrive_prompt([*shared, 50], 3, 0.0) == 1.0
    assert counter.arrive_prompt([*shared, 60], 3, 0.0) == 2.0
    assert counter.arrive_prompt([], 0, 0.0) == 0.0


def test_a_popular_first_block_makes_no_deeper_block_hot() -> None:
    counter = ArrivalCounter()
    for turn in range(50):
        assert counter.arrive_prompt([1, 100 + turn, 200 + turn], 2, 0.0) <= 1.0


def test_the_package_imports_nothing_but_the_standard_library() -> None:
    folder = Path(router_svc.policy.__file__).parent
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                ours = name.startswith("router_svc.policy")
                assert ours or name.split(".")[0] in sys.stdlib_module_names, (file.name, name)
