"""Each rival decides as its own published rule says, on fleets worked out by hand."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from router_svc.policy.base import Candidate, Decision, Ended, Fleet, Policy, Request
from router_svc.policy.bounded_hash import BoundedHash
from router_svc.policy.cache_aware import CacheAware
from router_svc.policy.dualmap import DualMap
from router_svc.policy.hashing import prefix_key, rendezvous
from router_svc.policy.lbgr import Lbgr, LbgrOptions
from router_svc.policy.least_load import PowerOfTwo
from router_svc.policy.preble import Preble
from router_svc.policy.registry import make

Row = dict[str, int]


def fleet(*rows: Row) -> Fleet:
    return Fleet([Candidate(f"w{i}", i, **row) for i, row in enumerate(rows)])  # type: ignore[arg-type]


def slot(policy: Policy, rows: list[Row], request: Request | None = None, seed: int = 0) -> int:
    request = request or Request(1000)
    return policy.choose(request, fleet(*rows), Random(seed)).chosen.candidate.slot


@pytest.mark.parametrize(
    ("spec", "rows", "expected"),
    [
        # Fewest outstanding, whatever is cached.
        ("least_load", [{"outstanding": 3, "hit": 900}, {"outstanding": 2}, {"outstanding": 4}], 1),
        # SGLang: 600 of 1000 matched is above one half.
        ("cache_aware", [{"outstanding": 30, "hit": 600}, {"outstanding": 0}], 0),
        # ... a difference of 33 is out of balance: least loaded.
        ("cache_aware", [{"outstanding": 33, "hit": 600}, {"outstanding": 0}], 1),
        # ... 33 against 0 is, 133 against 100 is too (> 1.0001 times).
        ("cache_aware", [{"outstanding": 133, "hit": 600}, {"outstanding": 100}], 1),
        (
            "cache_aware:balance_rel=1.5",
            [{"outstanding": 133, "hit": 600}, {"outstanding": 100}],
            0,
        ),
        ("cache_aware:threshold=0.3", [{"hit": 400}, {"hit": 350}], 0),
        # llm-d: 3 * 0.5 + 2 * 0 < 3 * 0 + 2 * 1, but 3 * 0.9 + 0 > 2.
        ("llmd", [{"hit": 500, "waiting": 1}, {"waiting": 0}], 1),
        ("llmd", [{"hit": 900, "waiting": 1}, {"waiting": 0}], 0),
        ("llmd", [{"hit": 100, "waiting": 5}, {"hit": 0, "waiting": 5}], 0),
        # Dynamo: (500 + 1000 - 800) / 16 + 40 = 83.75 against 1000 / 16 + 10 = 72.5.
        (
            "dynamo",
            [{"hit": 800, "queued_tokens": 500, "active_blocks": 40}, {"active_blocks": 10}],
            1,
        ),
        # ... with weight 2: 127.5 against 135.
        (
            "dynamo:overlap_weight=2",
            [{"hit": 800, "queued_tokens": 500, "active_blocks": 40}, {"active_blocks": 10}],
            0,
        ),
        # LMetric: (100 + 400) * 3 = 1500 against 1000 * 1.
        ("lmetric", [{"hit": 600, "queued_tokens": 100, "outstanding": 2}, {}], 1),
        # ... 500 * 1 against 1000.
        ("lmetric", [{"hit": 600, "queued_tokens": 100, "outstanding": 0}, {}], 0),
    ],
)
def test_published_rule(spec: str, rows: list[Row], expected: int) -> None:
    assert slot(make(spec), rows) == expected


def test_cache_aware_at_one_half_does_not_follow_a_match_of_one_half() -> None:
    policy = CacheAware()
    first = policy.choose(Request(1000), fleet({}, {}), Random(0)).chosen
    policy.on_book(Request(1000), first)
    other = 1 - first.candidate.slot
    rows: list[Row] = [{}, {}]
    rows[first.candidate.slot]["hit"] = 500
    assert slot(policy, rows) == other, "smallest tree instead"


def test_power_of_two_takes_the_less_loaded_of_its_draw() -> None:
    policy, rng = PowerOfTwo(), Random(0)
    loads = fleet(*({"outstanding": i} for i in range(4)))
    counts = Counter(
        policy.choose(Request(10), loads, rng).chosen.candidate.slot for _ in range(6000)
    )
    # Of 6 pairs the least loaded worker is in 3, the next wins 2, the next 1, the last none.
    assert counts[3] == 0
    assert counts[0] == pytest.approx(3000, rel=0.08)
    assert counts[1] == pytest.approx(2000, rel=0.08)


def hash_order(key: int, workers: int, salt: int = 0) -> list[int]:
    return sorted(range(workers), key=lambda i: rendezvous(key, f"w{i}", salt))


def test_bounded_hash_goes_on_when_the_owner_is_full() -> None:
    owner, second, third, _ = hash_order(77, 4)
    request = Request(1000, prefix_key=77)
    rows: list[Row] = [{"outstanding": 1} for _ in range(4)]
    # Room for ceil(1.25 * 5 / 4) = 2.
    assert slot(BoundedHash(), rows, request) == owner
    rows[owner]["outstanding"] = 2
    assert slot(BoundedHash(), rows, request) == second
    rows[second]["outstanding"] = 2
    rows[third]["outstanding"] = 0
    assert slot(BoundedHash(), rows, request) == third


def test_hashes_spread_keys_evenly_and_move_few_when_a_worker_leaves() -> None:
    before = [hash_order(key, 10)[0] for key in range(10_000)]
    counts = Counter(before)
    assert max(counts.values()) < 1.3 * 1000
    after = [hash_order(key, 9)[0] for key in range(10_000)]
    moved = sum(a != b for a, b in zip(before, after, strict=True))
    assert moved == counts[9]


def test_prefix_key_ends_the_first_256_tokens() -> None:
    assert prefix_key(range(100, 200), 16) == 115
    assert prefix_key([7, 8], 16) == 8
    assert prefix_key([7, 8, 9, 10], 512) == 9
    assert prefix_key([], 16) is None


def test_dualmap_takes_the_less_busy_of_two_owners_only() -> None:
    key = 5
    first = hash_order(key, 8, 1)[0]
    second = next(i for i in hash_order(key, 8, 2) if i != first)
    request = Request(1000, prefix_key=key)
    rows: list[Row] = [{} for _ in range(8)]
    rows[first]["queued_tokens"] = 300
    rows[second]["queued_tokens"] = 200
    assert slot(DualMap(), rows, request) == second
    rows[first]["hit"] = 400
    assert slot(DualMap(), rows, request) == first


def test_preble_exploits_more_than_half_and_explores_below() -> None:
    policy = Preble()
    assert slot(policy, [{"hit": 501}, {}]) == 0
    booked = policy.choose(Request(1000), fleet({"hit": 501}, {}), Random(0)).chosen
    for _ in range(20):
        policy.on_book(Request(1000), booked)
    # Load 20 * (499 * 0.11 + 32) = 1738 ms: less than 2 * 0 + 5000, so still the owner.
    assert slot(policy, [{"hit": 501}, {}]) == 0
    # Exploring: 1738 / 2 / 10 + 55 = 142 ms against 110 ms.
    assert slot(policy, [{"hit": 500}, {}]) == 1
    for _ in range(40):
        policy.on_book(Request(1000), booked)
    assert slot(policy, [{"hit": 501}, {}]) == 1, "its owner is overloaded"
    assert slot(policy, [{"hit": 501}, {}], Request(1000, now=200.0)) == 0, "the window has passed"


def book(policy: Policy, rows: list[Row], now: float) -> Decision:
    request = Request(1000, now=now)
    decision = policy.choose(request, fleet(*rows), Random(0))
    policy.on_book(request, decision.chosen)
    return decision


def test_lbgr_load_decays_and_gives_back_what_is_left() -> None:
    policy = Lbgr(LbgrOptions(miss_ms=1.0, bias=0.0))
    decision = book(policy, [{"hit": 900}, {}], 0.0)
    assert decision.chosen.candidate.slot == 0
    assert decision.chosen.cost == pytest.approx(100.0)
    costs = policy.choose(Request(1000, now=0.05), fleet({"hit": 900}, {}), Random(0)).prices
    # Two whole intervals of 20 ms have passed.
    assert costs[0].cost == pytest.approx(100.0 + 100.0 * (31 / 32) ** 2)
    policy.on_end(Ended(Request(1000, now=0.0), decision.chosen, now=0.05))
    costs = policy.choose(Request(1000, now=0.05), fleet({"hit": 900}, {}), Random(0)).prices
    assert costs[0].cost == pytest.approx(100.0)


def test_lbgr_bias_learns_the_residual_and_can_be_switched_off() -> None:
    for bias, expected in ((1.0, 1), (0.0, 0)):
        policy = Lbgr(LbgrOptions(miss_ms=1.0, bias=bias))
        decision = book(policy, [{"hit": 900}, {}], 0.0)
        # Took 5 s instead of 0.1 s.
        policy.on_end(Ended(Request(1000, now=0.0), decision.chosen, now=5.0))
        assert slot(policy, [{"hit": 900}, {}], Request(1000, now=60.0)) == expected


def test_specs_set_options_and_name_what_is_wrong() -> None:
    with pytest.raises(KeyError):
        make("best")
    with pytest.raises(ValueError, match="threshold, balance_abs, balance_rel"):
        make("cache_aware:treshold=0.3")
    with pytest.raises(ValueError, match="no number"):
        make("cache_aware:threshold=low")
    with pytest.raises(ValueError, match="none"):
        make("lmetric:x=1")
