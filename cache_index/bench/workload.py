"""The prompts that index benchmarks look up. Standard library only: rivals run in environments of
their own.

Prompts share 128 blocks by eights and have 384 of their own; each is cached by 1 to 3 workers. Half
of the lookups hit in full, 40 % in part, 10 % not at all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cache_index.base import IndexKey

SHARED, OWN, GROUP = 128, 384, 8
LOOKUPS = 400


@dataclass(frozen=True, slots=True)
class Workload:
    """`prompts[i]`: keys of one prompt; `homes[i]`: numbers of the workers that cache it."""

    prompts: Sequence[tuple[Sequence[IndexKey], Sequence[IndexKey]]]
    homes: Sequence[Sequence[int]]
    lookups: Sequence[Sequence[IndexKey]]

    @property
    def blocks(self) -> int:
        return len(self.prompts) // GROUP * SHARED + len(self.prompts) * OWN


def _keys(rng: random.Random, count: int) -> list[IndexKey]:
    return [IndexKey(rng.getrandbits(64)) for _ in range(count)]


def make_workload(workers: int, blocks: int, seed: int) -> Workload:
    rng = random.Random(seed)
    groups = max(1, blocks // (SHARED + GROUP * OWN))
    prompts = []
    for _ in range(groups):
        shared = _keys(rng, SHARED)
        prompts += [(shared, _keys(rng, OWN)) for _ in range(GROUP)]
    homes = [rng.sample(range(workers), min(workers, rng.choice((1, 1, 1, 2, 3)))) for _ in prompts]
    return Workload(prompts, homes, list(_lookups(rng, prompts)))


def _lookups(
    rng: random.Random, prompts: Sequence[tuple[Sequence[IndexKey], Sequence[IndexKey]]]
) -> Iterator[list[IndexKey]]:
    for _ in range(LOOKUPS):
        shared, own = rng.choice(prompts)
        whole, kind = [*shared, *own], rng.random()
        if kind < 0.5:
            yield whole
        elif kind < 0.9:
            known = rng.choice((128, 128, 200, 300, 400))
            yield whole[:known] + _keys(rng, len(whole) - known)
        else:
            yield _keys(rng, len(whole))
