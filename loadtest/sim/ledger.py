"""Booked load as each router sees it: its own bookings at once, the others' late."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Change:
    """What a booking, a first token or an end adds to one worker's row."""

    worker: int
    outstanding: int = 0
    waiting: int = 0
    tokens: int = 0
    queue_ms: float = 0.0
    blocks: int = 0


@dataclass(slots=True)
class Row:
    outstanding: int = 0
    waiting: int = 0
    tokens: int = 0
    queue_ms: float = 0.0
    blocks: int = 0

    def apply(self, change: Change) -> None:
        self.outstanding += change.outstanding
        self.waiting += change.waiting
        self.tokens += change.tokens
        self.blocks += change.blocks
        self.queue_ms += change.queue_ms
        if not self.waiting and abs(self.queue_ms) < 1e-6:
            # Sums of floats: an empty queue is exactly zero, or ties would never be ties.
            self.queue_ms = 0.0


@dataclass(slots=True)
class _Copy:
    rows: list[Row]
    late: deque[tuple[float, Change]] = field(default_factory=deque)


class Ledger:
    """`lag_ms` between a router's change and the others' knowledge of it; 0: one shared ledger."""

    def __init__(self, workers: int, routers: int = 1, lag_ms: float = 0.0) -> None:
        self._lag = lag_ms
        copies = routers if lag_ms > 0 else 1
        self._copies = [_Copy([Row() for _ in range(workers)]) for _ in range(copies)]

    def rows(self, router: int, now: float) -> list[Row]:
        copy = self._copies[router % len(self._copies)]
        while copy.late and copy.late[0][0] <= now:
            change = copy.late.popleft()[1]
            copy.rows[change.worker].apply(change)
        return copy.rows

    def change(self, router: int, change: Change, now: float) -> None:
        for number, copy in enumerate(self._copies):
            if number == router % len(self._copies):
                copy.rows[change.worker].apply(change)
            else:
                copy.late.append((now + self._lag, change))

    def check_idle(self) -> None:
        """Raises AssertionError if anything is booked although nothing is in flight."""
        for copy in self._copies:
            for _, change in copy.late:
                copy.rows[change.worker].apply(change)
            copy.late.clear()
            for worker, row in enumerate(copy.rows):
                booked = (row.outstanding, row.waiting, row.tokens, row.blocks)
                if any(booked) or abs(row.queue_ms) > 1e-3:
                    raise AssertionError(f"worker {worker} is idle but booked: {row}")
