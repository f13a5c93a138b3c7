"""What is being computed counts as cached there, and only as long."""

from __future__ import annotations

from random import Random

from cache_index.base import IndexKey, WorkerId
from cache_index.keys import KeySpace, index_keys
from kvroute.tokens import pack_tokens
from router_svc.in_flight import PER_PREFIX, InFlight, common_blocks

A, B = WorkerId("a"), WorkerId("b")
SPACE = KeySpace("m", block_size=4)


def keys(tokens: list[int]) -> list[IndexKey]:
    return index_keys(SPACE.keys(pack_tokens(tokens)))


def test_common_blocks_equal_a_walk() -> None:
    rng = Random(0)
    for _ in range(300):
        shared = [rng.randrange(9) for _ in range(4 * rng.randrange(6))]
        one = keys(shared + [10] + [rng.randrange(9) for _ in range(rng.randrange(40))])
        two = keys(shared + [11] + [rng.randrange(9) for _ in range(rng.randrange(40))])
        walked = 0
        while walked < min(len(one), len(two)) and one[walked] == two[walked]:
            walked += 1
        assert common_blocks(one, two) == walked


def test_the_longest_common_prefix_of_each_worker_counts() -> None:
    flight = InFlight()
    shared = list(range(16))
    ask = keys([*shared, 1, 2, 3, 4])
    with flight.computing(A, keys([*shared, 9, 9, 9, 9])), flight.computing(B, keys(shared[:8])):
        assert flight.match(ask) == {A: 4, B: 2}
        with flight.computing(B, ask):
            assert flight.match(ask) == {A: 4, B: 5}
        assert flight.match(ask) == {A: 4, B: 2}
        assert flight.match(keys([7] * 8)) == {}
    assert flight.match(ask) == {}
    assert len(flight) == 0


def test_a_prompt_shorter_than_a_block_has_nothing_to_share() -> None:
    flight = InFlight()
    with flight.computing(A, []):
        assert flight.match([]) == {}
        assert len(flight) == 0


def test_the_newest_requests_of_a_hot_prefix_are_looked_at() -> None:
    flight = InFlight()
    ask = keys(list(range(8)))
    managers = [flight.computing(A if i < 5 else B, ask) for i in range(PER_PREFIX + 5)]
    for manager in managers:
        manager.__enter__()
    assert flight.match(ask) == {B: 2}
    for manager in managers:
        manager.__exit__(None, None, None)
    assert len(flight) == 0
