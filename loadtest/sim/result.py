"""What a run measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.sim.job import Job
from loadtest.sim.timeline import Samples
from loadtest.sim.worker import Worker


@dataclass(frozen=True, slots=True)
class RunResult:
    """Times in ms of virtual time, rates per second of it, hit rate over prompt tokens.

    `ttft_ms` and `latency_ms` are sorted, one per finished call; `busy` and `share` one per worker.
    """

    calls: int
    refused: int
    retried: int
    ttft_ms: tuple[float, ...]
    latency_ms: tuple[float, ...]
    hit_rate: float
    throughput: float
    imbalance: float
    """Most loaded worker's busy time over the mean."""
    busy: tuple[float, ...]
    evictions: int
    ended_ms: float
    timeline: Samples

    def ttft(self, share: float) -> float:
        return percentile(self.ttft_ms, share)

    def latency(self, share: float) -> float:
        return percentile(self.latency_ms, share)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie; 0 for none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def quantiles(ordered: Sequence[float], parts: int = 100) -> list[float]:
    """`parts + 1` values that cut the sorted values into equal parts, from least to greatest."""
    if not ordered:
        return []
    last = len(ordered) - 1
    return [round(ordered[round(last * part / parts)], 2) for part in range(parts + 1)]


class Collector:
    """Gathers finished jobs."""

    def __init__(self) -> None:
        self.count = 0
        self._refused = 0
        self._retried = 0
        self._ttft: list[float] = []
        self._latency: list[float] = []
        self._last = 0.0

    def finished(self, job: Job) -> None:
        self.count += 1
        self._retried += job.attempts > 1
        self._ttft.append(job.first_token - job.arrived)
        self._latency.append(job.ended - job.arrived)
        self._last = max(self._last, job.ended)

    def refused(self, job: Job) -> None:
        self._refused += 1

    def result(self, workers: Sequence[Worker], now: float, timeline: Samples) -> RunResult:
        hit = sum(worker.hit_tokens for worker in workers)
        prompt = sum(worker.prompt_tokens for worker in workers)
        busy = tuple(worker.busy_ms for worker in workers)
        mean = sum(busy) / len(busy)
        last = self._last or 1.0
        return RunResult(
            self.count,
            self._refused,
            self._retried,
            tuple(sorted(self._ttft)),
            tuple(sorted(self._latency)),
            hit / prompt if prompt else 0.0,
            self.count / last * 1000.0,
            max(busy) / mean if mean else 1.0,
            tuple(worker_ms / last for worker_ms in busy),
            sum(worker.pool.evictions for worker in workers),
            now,
            timeline,
        )
