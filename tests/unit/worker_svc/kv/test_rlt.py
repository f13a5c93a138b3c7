from __future__ import annotations

from collections import Counter
from random import Random

from worker_svc.kv.evict.rlt import Rlt


def test_victims_are_uniform_over_unmarked_leaves() -> None:
    seen: Counter[int | None] = Counter()
    for seed in range(600):
        evictor = Rlt(4, Random(seed))
        for block in range(4):
            evictor.insert(block, block, None)
            evictor.leaf_on(block)
        evictor.pop()  # ends the first phase: all marks fall
        left = [block for block in range(4) if block in evictor._unmarked]
        evictor.leaf_off(left[0])
        evictor.hit(left[0])
        evictor.leaf_on(left[0])
        seen[_rank(left, evictor)] += 1
    assert seen[0] == 0
    assert abs(seen[1] - seen[2]) < 120


def _rank(left: list[int], evictor: Rlt) -> int:
    victim = evictor.pop()
    assert victim is not None
    return left.index(victim)


def test_nothing_to_evict_is_none() -> None:
    assert Rlt(4, Random(0)).pop() is None


def test_a_phase_ends_when_all_leaves_are_marked() -> None:
    evictor = Rlt(2, Random(0))
    for block in range(2):
        evictor.insert(block, block, None)
        evictor.leaf_on(block)
    before = evictor.phases
    assert evictor.pop() in (0, 1)
    assert evictor.phases == before + 1
    evictor.check()
