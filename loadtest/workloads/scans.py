"""Workloads that break recency: a cyclic scan, a drifting hot set, and bursts on one prefix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from loadtest.workloads.base import Call, Workload
from loadtest.workloads.ids import BlockIds, poisson


@dataclass(frozen=True, slots=True)
class Cyclic:
    """The same documents again and again, in the same order, at even times: one block more than the
    cache holds and LRU never hits.
    """

    documents: int = 64
    length: int = 2048
    rounds: int = 20
    question: int = 8
    output: int = 4
    rate: float = 6.0
    block_size: int = 16


def cyclic(options: Cyclic, seed: int = 0, name: str = "cyclic") -> Workload:
    """The same for every seed."""
    del seed
    return Workload(name, options.block_size, lambda: _cyclic(options))


def _cyclic(options: Cyclic) -> Iterator[Call]:
    ids, blocks = BlockIds(), options.length // options.block_size
    for number in range(options.documents * options.rounds):
        chain = ids.shared(number % options.documents, blocks)
        prompt = options.length + options.question
        yield Call(number, (number + 1) / options.rate, prompt, options.output, chain, blocks)


@dataclass(frozen=True, slots=True)
class Drift:
    """Popularity moves: a window of `hot` groups slides by half of itself every `period` calls;
    `scans` of the calls are one-shot. Three quarters of a popular prompt are shared.
    """

    calls: int = 6000
    hot: int = 40
    length: int = 2048
    scans: float = 0.3
    period: int = 600
    output: int = 4
    rate: float = 12.0
    block_size: int = 16


def drift(options: Drift, seed: int = 5, name: str = "drift") -> Workload:
    return Workload(name, options.block_size, lambda: _drift(options, seed))


def _drift(options: Drift, seed: int) -> Iterator[Call]:
    rng, ids = Random(f"drift/{seed}"), BlockIds()
    total = options.length // options.block_size
    shared = total * 3 // 4
    times = poisson(options.rate, rng)
    for number, at in zip(range(options.calls), times, strict=False):
        kept = 0
        chain: tuple[int, ...] = ()
        if rng.random() >= options.scans:
            slide = int(number / options.period * options.hot / 2)
            chain, kept = ids.shared(slide + rng.randrange(options.hot), shared), shared
        blocks = chain + ids.fresh(total - kept)
        yield Call(number, at, options.length, options.output, blocks, total, dead_from=kept)


@dataclass(frozen=True, slots=True)
class Burst:
    """Even traffic over `groups` prefixes; every `every` calls one of them becomes hot, and the
    next `burst` calls go to it with probability `share`.
    """

    calls: int = 4096
    groups: int = 128
    length: int = 2048
    ratio: float = 0.75
    every: int = 256
    burst: int = 96
    share: float = 0.9
    output: int = 4
    rate: float = 16.0
    block_size: int = 16


def burst(options: Burst, seed: int = 6, name: str = "burst") -> Workload:
    return Workload(name, options.block_size, lambda: _burst(options, seed))


def _burst(options: Burst, seed: int) -> Iterator[Call]:
    rng, ids = Random(f"burst/{seed}"), BlockIds()
    total = options.length // options.block_size
    shared = int(total * options.ratio)
    times, hot = poisson(options.rate, rng), 0
    for number, at in zip(range(options.calls), times, strict=False):
        place = number % options.every
        if place == 0:
            hot = rng.randrange(options.groups)
        bursting = place < options.burst and rng.random() < options.share
        group = hot if bursting else rng.randrange(options.groups)
        blocks = ids.shared(group, shared) + ids.fresh(total - shared)
        yield Call(number, at, options.length, options.output, blocks, total, dead_from=shared)
