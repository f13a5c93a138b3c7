"""The block pool beside a naive model: random chains open and close, everything is compared
after every operation.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.worker_svc.kv.naive_tree import RULES, NaiveTree
from worker_svc.kv.base import InvariantError
from worker_svc.kv.block_pool import BlockPool
from worker_svc.kv.delta_log import DeltaLog
from worker_svc.kv.evict.registry import EVICTORS, create

BLOCKS = 24


def chain(rng: Random) -> list[str]:
    """Keys of a sequence: a popular head, then one of few branches, then maybe something unique."""
    head = rng.choice("abcd")
    keys = [head * (i + 1) for i in range(rng.randrange(1, 5))]
    for _ in range(rng.randrange(0, 4)):
        keys.append(keys[-1] + rng.choice("xyz"))
    return keys


class Both:
    """One operation on the pool and on the naive tree at once."""

    def __init__(self, evictor: str, seed: int) -> None:
        made = create(evictor, BLOCKS, Random(seed))
        self.pool = BlockPool(BLOCKS, made)
        self.tree = NaiveTree(BLOCKS)
        self.tree.rule = RULES[evictor](self.tree, made)
        self.mirror: set[object] = set()

    def open(self, keys: list[str]) -> list[int] | None:
        pool, tree = self.pool, self.tree
        match = pool.match(keys, len(keys))
        assert len(match.blocks) == tree.match(keys)
        if len(keys) - len(match.blocks) > pool.available() - match.idle:
            return None
        pool.lock(match.blocks)
        tree.lock(keys[: len(match.blocks)])
        table = list(match.blocks)
        for key in keys[len(match.blocks) :]:
            before = set(pool.keys())
            table += pool.take(1)
            tree.take(before - set(pool.keys()))
            parent = table[-2] if len(table) > 1 else None
            table[-1] = pool.commit(table[-1], key, parent)
            tree.commit(key, keys[keys.index(key) - 1] if parent is not None else None)
        return table

    def close(self, keys: list[str], table: list[int]) -> None:
        self.pool.release(table)
        self.tree.release(keys)

    def compare(self) -> None:
        pool, tree = self.pool, self.tree
        pool.check()
        assert set(pool.keys()) == set(tree.cached)
        counts = pool.counts()
        assert counts.free + counts.cached + counts.locked == counts.total == BLOCKS
        assert counts.locked == len(tree.locked())
        assert counts.leaves == len(tree.leaves())
        delta = pool.take_delta()
        for key in delta.removed:
            self.mirror.remove(key)
            assert not any(tree_key.startswith(str(key)) for tree_key in tree.cached)
        for key in delta.stored:
            assert key not in self.mirror
            self.mirror.add(key)
        assert self.mirror == set(tree.cached)


@pytest.mark.parametrize("evictor", sorted(EVICTORS))
@pytest.mark.parametrize("seed", range(3))
def test_random_chains_agree_with_the_naive_model(evictor: str, seed: int) -> None:
    rng = Random(seed)
    both = Both(evictor, seed)
    held: list[tuple[list[str], list[int]]] = []
    for _ in range(700):
        if held and (len(held) > 3 or rng.random() < 0.4):
            both.close(*held.pop(rng.randrange(len(held))))
        else:
            keys = chain(rng)
            table = both.open(keys)
            if table is not None:
                held.append((keys, table))
        both.compare()
    for keys, table in held:
        both.close(keys, table)
    both.compare()
    assert both.pool.evictions > 100
    assert both.pool.counts().locked == 0


@pytest.mark.parametrize("evictor", sorted(EVICTORS))
def test_same_seed_same_victims(evictor: str) -> None:
    def trace() -> list[tuple[object, ...]]:
        rng, pool = Random(5), BlockPool(BLOCKS, create(evictor, BLOCKS, Random(7)))
        out = []
        for _ in range(300):
            keys = chain(rng)
            match = pool.match(keys, len(keys))
            pool.lock(match.blocks)
            table = match.blocks + pool.take(len(keys) - len(match.blocks))
            for at in range(len(match.blocks), len(keys)):
                table[at] = pool.commit(table[at], keys[at], table[at - 1] if at else None)
            pool.release(table)
            out.append(pool.keys())
        return out

    assert trace() == trace()


def test_twins_become_one_block() -> None:
    pool = BlockPool(8, create("lru", 8, Random(0)))
    first, second = pool.take(1), pool.take(1)
    assert pool.commit(first[0], "a", None) == first[0]
    assert pool.commit(second[0], "a", None) == first[0]
    assert pool.counts().locked == 1
    pool.release([first[0]])
    pool.release([first[0]])
    assert pool.counts().cached == 1
    pool.check()


def test_a_child_of_an_uncached_block_stays_private() -> None:
    pool = BlockPool(8, create("rlt", 8, Random(0)))
    table = pool.take(2)
    assert pool.commit(table[1], "ab", table[0]) == table[1]
    assert pool.keys() == ()
    pool.release(table)
    assert pool.counts().free == 8


def test_everything_locked_leaves_nothing_available() -> None:
    pool = BlockPool(4, create("rlt", 4, Random(0)))
    pool.take(4)
    assert pool.available() == 0
    with pytest.raises(InvariantError):
        pool.take(1)


def test_releasing_twice_is_found() -> None:
    pool = BlockPool(4, create("rlt", 4, Random(0)))
    table = pool.take(1)
    pool.release(table)
    with pytest.raises(InvariantError):
        pool.release(table)


@pytest.mark.parametrize("evictor", sorted(EVICTORS))
def test_blocks_hinted_dead_go_first(evictor: str) -> None:
    pool = BlockPool(9, create(evictor, 9, Random(0)))
    for name in ("old", "dead", "new"):
        table = pool.take(3)
        for at in range(3):
            table[at] = pool.commit(table[at], name + str(at), table[at - 1] if at else None)
        pool.release(table, dead_from=1 if name == "dead" else None)
    pool.release(pool.take(2))
    left = {f"{name}{at}" for name in ("old", "new") for at in range(3)} | {"dead0"}
    assert set(pool.keys()) == left
    pool.check()


def test_a_hit_takes_the_hint_back() -> None:
    pool = BlockPool(4, create("lru", 4, Random(0)))
    table = pool.take(1)
    pool.commit(table[0], "a", None)
    pool.release(table, dead_from=0)
    pool.lock(pool.match(["a"], 1).blocks)
    pool.release(table)
    other = pool.take(1)
    pool.commit(other[0], "b", None)
    pool.release(other)
    pool.release(pool.take(3))
    assert pool.keys() == ("b",)


def test_flush_keeps_what_is_in_use_and_says_so() -> None:
    pool = BlockPool(8, create("rlt", 8, Random(0)))
    table = pool.take(3)
    for at, key in enumerate("abc"):
        table[at] = pool.commit(table[at], key, table[at - 1] if at else None)
    pool.release(table)
    pool.lock(table[:2])
    pool.take_delta()
    pool.flush()
    delta = pool.take_delta()
    assert delta.flushed and delta.stored == ("a", "b") and delta.removed == ()
    pool.check()


def test_discard_forgets_what_nobody_else_uses() -> None:
    pool = BlockPool(8, create("rlt", 8, Random(0)))
    table = pool.take(3)
    for at, key in enumerate("abc"):
        table[at] = pool.commit(table[at], key, table[at - 1] if at else None)
    pool.lock(table[:2])
    pool.discard(table, keep=1)
    assert pool.keys() == ("a", "b")
    pool.release(table[:2])
    pool.check()


def test_deltas_are_net() -> None:
    log = DeltaLog()
    log.store("a")
    log.take()
    log.remove("a")
    log.store("a")
    log.store("b")
    log.remove("b")
    log.store("c")
    delta = log.take()
    assert delta.stored == ("c",) and delta.removed == () and not delta.flushed
