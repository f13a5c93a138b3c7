from __future__ import annotations

import random

import pytest

from cache_index.base import Epoch, IndexKey, WorkerId
from cache_index.view import IndexView

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")


def keys(*numbers: int) -> list[IndexKey]:
    return [IndexKey(number) for number in numbers]


def view_of(**blocks: list[IndexKey]) -> IndexView:
    view = IndexView()
    for number, (name, held) in enumerate(blocks.items()):
        view.add_worker(WorkerId(name), Epoch(number + 1))
        view.store(WorkerId(name), held)
    return view


def walk(view: IndexView, prompt: list[IndexKey]) -> dict[WorkerId, int]:
    """The plain reference: block by block, worker by worker."""
    hits = {}
    for worker in view.workers:
        depth = 0
        while depth < len(prompt) and view.holds(worker, prompt[depth]):
            depth += 1
        if depth:
            hits[worker] = depth
    return hits


def test_match_gives_each_worker_its_leading_blocks_and_the_best() -> None:
    view = view_of(a=keys(1, 2, 3, 4, 5), b=keys(1, 2, 3))
    hits = view.match(keys(1, 2, 3, 4, 5, 6))
    assert hits == {A: 5, B: 3}
    assert hits.best == 5


def test_match_finds_the_longest_whatever_the_order_of_insertion() -> None:
    assert view_of(a=keys(1), b=keys(1, 2, 3, 4, 5)).match(keys(1, 2, 3, 4, 5)).best == 5
    assert view_of(b=keys(1, 2, 3, 4, 5), a=keys(1)).match(keys(1, 2, 3, 4, 5)).best == 5


def test_match_of_nothing_is_empty() -> None:
    assert view_of(a=keys(1)).match([]) == {}
    assert view_of(a=keys(1)).match(keys(2)) == {}
    assert view_of(a=keys(1)).match(keys(2)).best == 0


@pytest.mark.parametrize("seed", range(20))
def test_gallop_equals_walk_on_random_prefix_closed_caches(seed: int) -> None:
    rng = random.Random(seed)
    parent: dict[int, int] = {}
    for node in range(1, 400):
        parent[node] = rng.choice([0, *range(max(1, node - 3), node)]) if node > 1 else 0

    def chain(node: int) -> list[IndexKey]:
        found: list[IndexKey] = []
        while node:
            found.append(IndexKey(node * 0x9E3779B97F4A7C15 % 2**64))
            node = parent[node]
        return found[::-1]

    view = IndexView()
    names = [WorkerId(f"w{number}") for number in range(rng.choice([1, 3, 70]))]
    for number, name in enumerate(names):
        view.add_worker(name, Epoch(number + 1))
        for _ in range(rng.randrange(12)):
            view.store(name, chain(rng.randrange(1, 400)))
    view.drop_worker(names[0])
    for _ in range(100):
        prompt = chain(rng.randrange(1, 400))
        prompt += keys(*(rng.getrandbits(64) for _ in range(rng.randrange(3))))
        hits = view.match(prompt)
        assert hits == walk(view, prompt)
        assert hits.best == max(hits.values(), default=0)
    view.check()


def test_dropped_worker_is_gone_at_once_and_swept_later() -> None:
    view = view_of(a=keys(1, 2), b=keys(1))
    assert view.drop_worker(A)
    assert not view.drop_worker(A)
    assert view.match(keys(1, 2)) == {B: 1}
    assert len(view) == 2
    view.sweep()
    assert len(view) == 1
    view.check()


def test_new_epoch_starts_empty_even_before_the_sweep() -> None:
    view = view_of(a=keys(1, 2))
    view.add_worker(A, Epoch(9))
    assert view.match(keys(1, 2)) == {}
    assert view.blocks_of(A) == set()
    view.store(A, keys(1))
    assert view.match(keys(1, 2)) == {A: 1}
    view.sweep()
    assert view.match(keys(1, 2)) == {A: 1}
    view.check()


def test_bit_is_not_used_again_before_it_is_swept() -> None:
    view = view_of(a=keys(*range(1000)))
    view.drop_worker(A)
    view.sweep(limit=1)
    view.add_worker(B, Epoch(5))
    assert view.match(keys(999)) == {}
    for _ in range(100):
        view.sweep(limit=1)
    assert len(view) == 0
    view.add_worker(C, Epoch(6))
    view.check()


def test_cap_refuses_blocks_and_everything_behind_them() -> None:
    view = IndexView(max_blocks=3)
    view.add_worker(A, Epoch(1))
    assert not view.store(A, keys(1, 2, 3, 4, 5))
    assert (len(view), view.refused) == (3, 2)
    assert view.is_truncated(A)
    view.remove(A, keys(3))
    assert not view.store(A, keys(6))  # Room again, but block 4 is missing in front of it.
    assert view.match(keys(1, 2, 3, 4)) == {A: 2}
    view.check()


def test_cap_holds_in_a_burst_of_unique_prompts_with_churn() -> None:
    view, rng = IndexView(max_blocks=500), random.Random(7)
    for epoch in range(1, 30):
        view.add_worker(A, Epoch(epoch))
        for _ in range(10):
            view.store(A, keys(*(rng.getrandbits(64) for _ in range(40))))
            assert len(view) <= 500
        view.sweep()
    view.check()


def test_store_and_remove_are_idempotent() -> None:
    view = view_of(a=keys(1, 2))
    view.store(A, keys(2, 1))
    assert (view.count(A), view.digest(A)) == (2, 3)
    view.remove(A, keys(2, 2, 7))
    assert (view.count(A), view.digest(A)) == (1, 1)
    view.check()


def test_unknown_worker_changes_nothing() -> None:
    view = view_of(a=keys(1))
    assert not view.store(B, keys(5))
    view.remove(B, keys(1))
    assert (view.count(B), view.digest(B), view.blocks_of(B), view.epoch(B)) == (0, 0, set(), None)
    assert view.match(keys(1, 5)) == {A: 1}
