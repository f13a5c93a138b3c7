"""A model without tensors: its "K/V" are the tokens themselves, and the next token is a digest
of the whole context.

It reads the context back through the block table, so that a wrong table, a block handed to two
sequences, or a block evicted while in use changes what it says, as it would with a real model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from kvroute.errors import KvrouteError
from worker_svc.engine.base import Picked, Row, RowResult

VOCAB = 101


def next_token(context: Sequence[int]) -> int:
    digest = hashlib.blake2b(repr(list(context)).encode(), digest_size=4).digest()
    return 1 + int.from_bytes(digest, "little") % (VOCAB - 1)


def expected(prompt: Sequence[int], count: int) -> list[int]:
    """What the fake model answers."""
    context = list(prompt)
    for _ in range(count):
        context.append(next_token(context))
    return context[len(prompt) :]


class FakeRunner:
    """`broken(tokens)` may fail single rows; `explode` makes the next step raise."""

    vocab_size = VOCAB
    max_context = 10_000
    eos: frozenset[int] = frozenset()

    def __init__(self, broken: Callable[[Sequence[int]], bool] = lambda tokens: False) -> None:
        self.broken = broken
        self.explode = False
        self.scrubbed: list[int] = []
        self.steps: list[list[int]] = []

    def allocate(self, blocks: int, block_size: int) -> None:
        self.size = block_size
        self.slots: list[int | None] = [None] * (blocks * block_size)

    def run(self, rows: Sequence[Row]) -> list[RowResult]:
        self.steps.append([len(row.tokens) for row in rows])
        if self.explode:
            self.explode = False
            raise RuntimeError("boom")
        for row in rows:
            for offset, token in enumerate(row.tokens):
                self.slots[self._slot(row, row.start + offset)] = token
        return [self._result(row) for row in rows]

    def scrub(self, blocks: Sequence[int]) -> None:
        self.scrubbed.extend(blocks)
        for block in blocks:
            self.slots[block * self.size : (block + 1) * self.size] = [None] * self.size

    def _slot(self, row: Row, position: int) -> int:
        return row.table[position // self.size] * self.size + position % self.size

    def _result(self, row: Row) -> RowResult:
        if row.pick is None:
            return None
        if self.broken(row.pick.tokens):
            return KvrouteError("not finite")
        end = row.start + len(row.tokens)
        context = [self.slots[self._slot(row, at)] for at in range(end)]
        assert context == list(row.pick.tokens), "the cache holds something else"
        return Picked(next_token(row.pick.tokens))
