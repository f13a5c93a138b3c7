"""Two runs of the same workload: is the difference real? Bootstrap over paired requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from loadtest.live.record import Record
from loadtest.sim.result import percentile


@dataclass(frozen=True, slots=True)
class Difference:
    """`ratio`: second run's percentile over the first's, and its 95 % interval."""

    measure: str
    first_ms: float
    second_ms: float
    ratio: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """The interval excludes 1."""
        return self.low > 1.0 or self.high < 1.0


def compare(
    first: Sequence[Record],
    second: Sequence[Record],
    *,
    rounds: int = 1000,
    seed: int = 0,
) -> list[Difference]:
    """TTFT and latency, median and P95. Only requests that both runs answered count: they are drawn
    together, so that what makes one prompt slow in both runs cancels out.

    Raises:
        ValueError: no request was answered in both.
    """
    mine = {record.number: record for record in first if not record.error and not record.warm_up}
    theirs = {record.number: record for record in second if not record.error}
    numbers = sorted(set(mine) & set(theirs))
    if not numbers:
        raise ValueError("no request was answered in both runs")
    found = []
    for name in ("ttft", "latency"):
        pairs = [
            (1000.0 * getattr(mine[n], name), 1000.0 * getattr(theirs[n], name)) for n in numbers
        ]
        for number, share in ((50, 0.5), (95, 0.95)):
            found.append(_difference(f"{name}_p{number}", pairs, share, rounds, seed))
    return found


def _difference(
    name: str, pairs: list[tuple[float, float]], share: float, rounds: int, seed: int
) -> Difference:
    rng = Random(f"bootstrap/{seed}/{name}")
    a, b = _percentiles(pairs, share)
    ratios = sorted(
        _ratio(*_percentiles(rng.choices(pairs, k=len(pairs)), share)) for _ in range(rounds)
    )
    low, high = percentile(ratios, 0.025), percentile(ratios, 0.975)
    return Difference(name, round(a, 2), round(b, 2), _ratio(a, b), low, high)


def _percentiles(pairs: list[tuple[float, float]], share: float) -> tuple[float, float]:
    return (
        percentile(sorted(pair[0] for pair in pairs), share),
        percentile(sorted(pair[1] for pair in pairs), share),
    )


def _ratio(a: float, b: float) -> float:
    return b / a if a > 0 else 1.0
