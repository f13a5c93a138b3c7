"""Generated shared prefix (GSP), the paper's main benchmark: groups of prompts that share their
first part and end in a one-shot suffix (arXiv 2601.18999, section 5; SGLang `bench_serving`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from loadtest.workloads.base import Call, Workload
from loadtest.workloads.ids import BlockIds, poisson

ORDERS = ("random", "round_robin", "grouped")


@dataclass(frozen=True, slots=True)
class Gsp:
    """`lengths` go round the groups; `ratio` of each prompt is shared. `zipf` > 0: how often a
    group is asked for follows a power law instead of being `prompts` for each.

    Orders: `random`; `round_robin`, one prompt of every group in turn (the worst case of LRU);
    `grouped`, one group after the other (one hot prefix at a time).
    """

    groups: int = 128
    prompts: int = 32
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192)
    ratio: float = 0.5
    output: int = 4
    rate: float = 12.0
    order: str = "random"
    zipf: float = 0.0
    block_size: int = 16


def gsp(options: Gsp, seed: int = 1, name: str = "gsp") -> Workload:
    """Raises ValueError for an unknown order."""
    if options.order not in ORDERS:
        raise ValueError(f"unknown order {options.order!r}; known are {', '.join(ORDERS)}")
    return Workload(name, options.block_size, lambda: _calls(options, seed))


def _calls(options: Gsp, seed: int) -> Iterator[Call]:
    rng, ids = Random(f"gsp/{seed}"), BlockIds()
    items = _items(options, rng)
    times = poisson(options.rate, rng)
    size = options.block_size
    for number, (group, at) in enumerate(zip(items, times, strict=False)):
        length = options.lengths[group % len(options.lengths)]
        shared = round(length * options.ratio) // size
        total = length // size
        blocks = ids.shared(group, shared) + ids.fresh(total - shared)
        yield Call(number, at, length, options.output, blocks, total, dead_from=shared)


def _items(options: Gsp, rng: Random) -> list[int]:
    """The group of every prompt, in order of arrival."""
    counts = [options.prompts] * options.groups
    if options.zipf > 0:
        weights = [1.0 / rank**options.zipf for rank in range(1, options.groups + 1)]
        rng.shuffle(weights)
        drawn = rng.choices(range(options.groups), weights, k=options.groups * options.prompts)
        counts = [0] * options.groups
        for group in drawn:
            counts[group] += 1
    if options.order == "round_robin":
        rounds = itertools.zip_longest(*([g] * count for g, count in enumerate(counts)))
        return [group for turn in rounds for group in turn if group is not None]
    items = [group for group, count in enumerate(counts) for _ in range(count)]
    if options.order == "random":
        rng.shuffle(items)
    return items
