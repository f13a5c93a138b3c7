"""Questions about long documents, shaped like LooGLE: each document is asked about a few times, in
random order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from loadtest.workloads.base import Call, Workload
from loadtest.workloads.ids import BlockIds, poisson


@dataclass(frozen=True, slots=True)
class Documents:
    """`questions` and `question`: inclusive ranges, per document and in tokens."""

    documents: int = 160
    questions: tuple[int, int] = (3, 19)
    lengths: tuple[int, ...] = (1024, 2048, 4096, 8192)
    question: tuple[int, int] = (16, 63)
    output: int = 4
    rate: float = 12.0
    block_size: int = 16


def documents(options: Documents, seed: int = 3, name: str = "loogle") -> Workload:
    return Workload(name, options.block_size, lambda: _calls(options, seed))


def _calls(options: Documents, seed: int) -> Iterator[Call]:
    rng, ids, size = Random(f"documents/{seed}"), BlockIds(), options.block_size
    items = [
        document
        for document in range(options.documents)
        for _ in range(rng.randint(*options.questions))
    ]
    rng.shuffle(items)
    times = poisson(options.rate, rng)
    for number, (document, at) in enumerate(zip(items, times, strict=False)):
        length = options.lengths[document % len(options.lengths)]
        prompt = length + rng.randint(*options.question)
        shared = length // size
        blocks = ids.shared(document, shared) + ids.fresh(prompt // size - shared)
        yield Call(number, at, prompt, options.output, blocks, prompt // size, dead_from=shared)
