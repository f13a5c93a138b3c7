"""Untimed replay on one cache: what an evictor alone is worth.

Calls come one after the other; `concurrent` of them hold their blocks at a time. With `look_ahead`
n, the next n calls count as queued and lock what they will hit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from loadtest.sim.belady import Belady
from loadtest.sim.future import Future
from loadtest.sim.lookahead import LookAhead
from loadtest.workloads.base import Call
from worker_svc.kv.base import Evictor
from worker_svc.kv.block_pool import BlockPool
from worker_svc.kv.evict.registry import create

BELADY = "belady"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """`hit_rate` over prompt tokens. `refused`: calls too long for the cache."""

    hit_rate: float
    evictions: int
    refused: int


class Replay:
    """One cache of `blocks` blocks under `evictor` (a name of the registry, or `belady`)."""

    def __init__(
        self,
        calls: Sequence[Call],
        block_size: int,
        evictor: str,
        blocks: int,
        *,
        concurrent: int = 1,
        look_ahead: int = 0,
        hints: bool = False,
        seed: int = 7,
        future: Future | None = None,
    ) -> None:
        self._calls = calls
        self._size = block_size
        self._concurrent = concurrent
        self._hints = hints
        self._belady = Belady(blocks, future or Future(calls)) if evictor == BELADY else None
        kept: Evictor | None = self._belady
        if kept is None:
            kept = create(evictor, blocks, Random(f"replay/{seed}"))
        self.pool = BlockPool(blocks, kept)
        self._window = look_ahead
        self._ahead = LookAhead(self.pool) if look_ahead else None
        self._open: deque[tuple[Call, list[int]]] = deque()

    def run(self) -> ReplayResult:
        hits = tokens = refused = 0
        for place, call in enumerate(self._calls):
            if self._belady is not None:
                self._belady.now = place - 1
            self._look_from(place)
            while len(self._open) >= self._concurrent:
                self._close()
            table = self._admit(call)
            if self._ahead is not None:
                self._ahead.drop(call)
                self._ahead.extend()
            if table is None:
                refused += 1
                continue
            if self._belady is not None:
                self._belady.now = place
            hits += min(self._hit * self._size, call.prompt_tokens - 1)
            tokens += call.prompt_tokens
            self._open.append((call, table))
        while self._open:
            self._close()
        return ReplayResult(hits / tokens if tokens else 0.0, self.pool.evictions, refused)

    def _look_from(self, place: int) -> None:
        if self._ahead is None:
            return
        first = place + self._window - 1 if place else 0
        for call in self._calls[first : place + self._window]:
            if call.prompt_blocks <= self.pool.total:
                self._ahead.add(call)

    def _admit(self, call: Call) -> list[int] | None:
        if call.prompt_blocks > self.pool.total:
            return None
        while (table := self._take(call)) is None:
            if self._open:
                self._close()
            elif self._ahead is None or not self._ahead.shed(call):
                return None
        return table

    def _take(self, call: Call) -> list[int] | None:
        pool, blocks, end = self.pool, call.blocks, call.prompt_blocks
        match = pool.match(blocks, end)
        hits = len(match.blocks)
        if pool.available() - match.idle < end - hits:
            return None
        pool.lock(match.blocks)
        table = match.blocks + pool.take(end - hits)
        parent = table[hits - 1] if hits else None
        for index in range(hits, end):
            parent = table[index] = pool.commit(table[index], blocks[index], parent)
        self._hit = hits
        return table

    def _close(self) -> None:
        """The oldest open call ends: its answer's blocks are cached as far as there is room."""
        call, table = self._open.popleft()
        pool = self.pool
        for index in range(call.prompt_blocks, len(call.blocks)):
            if not pool.available():
                break
            parent = table[-1] if table else None
            table.append(pool.commit(pool.take(1)[0], call.blocks[index], parent))
        pool.release(table, call.dead_from if self._hints else None)
        if self._ahead is not None:
            self._ahead.extend()
