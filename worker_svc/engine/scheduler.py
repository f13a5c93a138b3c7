"""Which sequences compute which tokens in the next step. Pure Python: no tensors, no clock, no
threads.

Each step has a budget of tokens. Decodes (one token each) come first, so that a long prompt never
stalls streams that run; then prompts already begun get the rest in chunks; then waiting ones are
admitted while blocks suffice.

- *Admission* checks before it locks: the blocks of the whole prompt that are not cached, what begun
  prompts still need,
  and one block of head-room per running sequence must be available. (Without head-room admission
  and preemption thrash.)
- *In flight*: a prompt whose next block a running sequence is just computing waits for it instead
  of computing it twice.
- *Preemption* by recompute: when a running sequence finds no block, the lowest ranked one not
  planned in this step gives
  back its blocks and waits in front. Its full blocks stay cached, so that most of the work usually
  survives.
- A request that could never fit is refused at `add`, so that the highest ranked sequence can always
  go on: no deadlock.

Rank of running sequences: priority, then admission order.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from kvroute.errors import InvalidArgument, Overloaded
from worker_svc.engine.look_ahead import LookAhead
from worker_svc.engine.options import EngineOptions
from worker_svc.engine.sequence import Sequence, blocks_for, total_blocks
from worker_svc.engine.waiting import Waiting
from worker_svc.kv.base import require
from worker_svc.kv.block_pool import BlockPool, Match

_SHARED = 2
"""Blocks that waiting for a running sequence must spare, at least."""


@dataclass(frozen=True, slots=True)
class Planned:
    """`sequence` computes its next `count` tokens. `decoding`: it has its prompt behind it."""

    sequence: Sequence
    count: int
    decoding: bool


@dataclass(slots=True)
class Plan:
    """One step: rows of one token first. `admitted` are among them for the first time."""

    rows: list[Planned] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)


class Scheduler:
    """Owns the sequences' blocks. Every sequence in it is either waiting or running."""

    def __init__(self, options: EngineOptions, pool: BlockPool) -> None:
        self.preemptions = 0
        self.waiting = Waiting()
        self.running: list[Sequence] = []
        self.pool = pool
        self.look_ahead = LookAhead(pool, options.block_size, options.look_ahead)
        self._options = options
        self._size = options.block_size

    def add(self, sequence: Sequence) -> None:
        """Queues it. Raises `Overloaded` when the queue is full, `InvalidArgument` when it can
        never run.
        """
        need = total_blocks(sequence, self._size)
        if need > self.pool.total:
            known, most = len(sequence.tokens), sequence.request.sampling.max_tokens
            raise InvalidArgument.of(
                "token_ids + max_tokens",
                f"{known} + {most} tokens",
                f"at most {self.pool.total * self._size} tokens, the worker's whole cache",
            )
        if len(self.waiting) >= self._options.max_queue:
            raise Overloaded(
                f"the worker's queue is full ({self._options.max_queue} requests); retry later",
                field="max_queue",
                limit=self._options.max_queue,
            )
        self.waiting.push(sequence)

    def find(self, request_id: int) -> Sequence | None:
        found = self.waiting.find(request_id)
        if found is not None:
            return found
        return next((s for s in self.running if s.request.request_id == request_id), None)

    def schedule(self, now: float) -> Plan:
        """Plans one step and takes its blocks. `now` in seconds, of the clock that stamped
        arrivals. Changes state.
        """
        plan = Plan()
        before = self.preemptions
        self.look_ahead.extend(self.waiting)
        budget = self._plan_decodes(plan)
        budget = self._plan_prefills(plan, budget)
        if self.preemptions == before:
            self._admit(plan, budget, now)
        plan.rows.sort(key=lambda row: row.count != 1)
        return plan

    def computed(self, row: Planned) -> None:
        """The K/V of a planned row are in the pool: blocks that are full now get cached."""
        sequence = row.sequence
        sequence.computed += row.count
        full = sequence.computed // self._size
        table, keys = sequence.table, sequence.keys
        for index in range(sequence.committed, full):
            parent = table[index - 1] if index else None
            table[index] = self.pool.commit(table[index], keys[index], parent)
        sequence.committed = max(full, sequence.committed)

    def finish(self, sequence: Sequence) -> None:
        """Takes a waiting or running sequence out; its full blocks stay cached."""
        self.waiting.charge(sequence.request.space.tenant, sequence.completion_tokens)
        if sequence in self.running:
            self.running.remove(sequence)
            dead = sequence.request.dead_from
            self._release(sequence, None if dead is None else blocks_for(dead, self._size))
        else:
            self.waiting.remove(sequence)
            self.look_ahead.drop(sequence)

    def fail(self, sequence: Sequence) -> list[int]:
        """Takes a running sequence out without trusting anything it computed. Returns the blocks to
        scrub.
        """
        self.running.remove(sequence)
        kept = (sequence.cached_tokens or 0) // self._size if not sequence.preemptions else 0
        suspect = sequence.table[kept:]
        self.pool.discard(sequence.table, kept)
        self._reset(sequence)
        return [block for block in suspect if self.pool.is_free(block)]

    def check(self) -> None:
        """Raises `InvariantError` when sequences and pool disagree."""
        self.pool.check()
        users = self.look_ahead.users()
        private: set[int] = set()
        for sequence in self.running:
            table = sequence.table
            require(len(set(table)) == len(table), "a block is twice in one table")
            require(len(table) * self._size >= sequence.computed, "a table is too short")
            for index, block in enumerate(table):
                users[block] = users.get(block, 0) + 1
                if index >= sequence.committed:
                    private.add(block)
        require(all(users[block] == 1 for block in private), "a private block is shared")
        require(all(not s.table for s in self.waiting), "a waiting sequence holds blocks")
        self.pool.check_users(users)

    def _plan_decodes(self, plan: Plan) -> int:
        budget = self._options.max_batch_tokens
        for sequence in list(self.running):
            if sequence.pending != 1 or not sequence.table:
                continue
            if self._grow(sequence, plan):
                plan.rows.append(Planned(sequence, 1, sequence.completion_tokens > 0))
                budget -= 1
        return budget

    def _plan_prefills(self, plan: Plan, budget: int) -> int:
        for sequence in list(self.running):
            if budget <= 0:
                break
            if sequence.pending == 1 or not sequence.table:
                continue
            count = min(sequence.pending, budget)
            while self._room(sequence) < count:
                if self.look_ahead.shed():
                    continue
                victim = self._victim(plan, sequence)
                if victim is None:
                    break
                self._preempt(victim)
            count = min(count, self._room(sequence))
            if count > 0:
                self._extend(sequence, count)
                plan.rows.append(Planned(sequence, count, False))
                budget -= count
        return budget

    def _admit(self, plan: Plan, budget: int, now: float) -> None:
        while budget > 0 and len(self.running) < self._options.max_running:
            sequence = self.waiting.peek(now)
            if sequence is None:
                return
            match = self._fitting(sequence)
            if match is None:
                return
            hit = len(match.blocks)
            if self._in_flight(sequence, hit):
                return
            self.waiting.remove(sequence)
            self.pool.lock(match.blocks)
            self.look_ahead.drop(sequence)
            sequence.table = list(match.blocks)
            sequence.computed, sequence.committed = hit * self._size, hit
            if sequence.cached_tokens is None:
                sequence.cached_tokens = sequence.computed
                sequence.times.queue_ms = (now - sequence.times.arrived) * 1000
                plan.admitted.append(sequence)
                self.waiting.charge(sequence.request.space.tenant, sequence.pending)
            count = min(sequence.pending, budget)
            self._extend(sequence, count)
            insort(self.running, sequence, key=_rank)
            decoding = count == 1 and sequence.completion_tokens > 0
            plan.rows.append(Planned(sequence, count, decoding))
            budget -= count

    def _fitting(self, sequence: Sequence) -> Match | None:
        """Its cached prefix, if the rest of its blocks is available as well; sheds others'
        look-ahead locks for it.
        """
        while True:
            match = self.pool.match(sequence.keys, (len(sequence.tokens) - 1) // self._size)
            need = blocks_for(len(sequence.tokens), self._size) - len(match.blocks)
            if need + self._promised() <= self.pool.available() - match.idle:
                return match
            if not self.look_ahead.shed(sequence):
                return None

    def _promised(self) -> int:
        """Blocks that running sequences will need: the rest of begun prompts, and one each to go
        on.
        """
        size = self._size
        return sum(
            1 + max(0, blocks_for(len(sequence.tokens), size) - len(sequence.table))
            for sequence in self.running
        )

    def _in_flight(self, sequence: Sequence, hit: int) -> bool:
        """A running sequence is about to store at least `_SHARED` further blocks that this one
        starts with.
        """
        keys = sequence.keys
        last = (len(sequence.tokens) - 1) // self._size
        at = hit + _SHARED - 1
        if at >= last:
            return False
        return any(
            other.committed < len(other.keys)
            and at < len(other.keys)
            and other.committed <= at
            and other.pending > 1
            and other.keys[at] == keys[at]
            for other in self.running
        )

    def _room(self, sequence: Sequence) -> int:
        """Tokens it could compute with the blocks it has and those available."""
        blocks = len(sequence.table) + self.pool.available()
        return blocks * self._size - sequence.computed

    def _grow(self, sequence: Sequence, plan: Plan) -> bool:
        """Room for one more token, preempting if need be. False: it had to go itself."""
        while self._room(sequence) < 1:
            if self.look_ahead.shed():
                continue
            victim = self._victim(plan, None)
            if victim is None:
                return False
            self._preempt(victim)
            if victim is sequence:
                return False
        self._extend(sequence, 1)
        return True

    def _extend(self, sequence: Sequence, count: int) -> None:
        need = blocks_for(sequence.computed + count, self._size) - len(sequence.table)
        if need > 0:
            sequence.table += self.pool.take(need)

    def _victim(self, plan: Plan, spared: Sequence | None) -> Sequence | None:
        """The lowest ranked running sequence not planned in this step."""
        planned = {id(row.sequence) for row in plan.rows}
        for sequence in reversed(self.running):
            if id(sequence) not in planned and sequence is not spared:
                return sequence
        return None

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._release(sequence)
        sequence.preemptions += 1
        self.preemptions += 1
        self.waiting.push_preempted(sequence)

    def _release(self, sequence: Sequence, dead_from: int | None = None) -> None:
        self.pool.release(sequence.table, dead_from)
        self._reset(sequence)

    def _reset(self, sequence: Sequence) -> None:
        sequence.table = []
        sequence.computed = sequence.committed = 0


def _rank(sequence: Sequence) -> tuple[int, int]:
    return -sequence.request.priority, sequence.order
