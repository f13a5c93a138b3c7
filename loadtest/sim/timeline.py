"""Load per worker over virtual time, in a bounded number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.sim.worker import Worker

MAX_SAMPLES = 400
START_INTERVAL_MS = 250.0


@dataclass(frozen=True, slots=True)
class Samples:
    """One entry per `interval_ms`, each with one value per worker: requests it computes, and
    requests that wait in its queue.
    """

    interval_ms: float
    running: tuple[tuple[int, ...], ...]
    waiting: tuple[tuple[int, ...], ...]


class Timeline:
    """Samples at even times; when there are too many, every second one is dropped and the interval
    doubles.
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._interval = START_INTERVAL_MS
        self.next_ms = 0.0
        self._running: list[tuple[int, ...]] = []
        self._waiting: list[tuple[int, ...]] = []

    def sample(self, now: float) -> None:
        """Records the state that held until `now`, for every sampling time before it."""
        running = tuple(worker.running for worker in self._workers)
        waiting = tuple(len(worker.waiting) for worker in self._workers)
        while self.next_ms <= now:
            self._running.append(running)
            self._waiting.append(waiting)
            self.next_ms += self._interval
            if len(self._running) >= MAX_SAMPLES:
                self._running, self._waiting = self._running[::2], self._waiting[::2]
                self._interval *= 2
                self.next_ms = len(self._running) * self._interval

    def samples(self) -> Samples:
        return Samples(self._interval, tuple(self._running), tuple(self._waiting))
