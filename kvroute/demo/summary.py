"""Figures of the demo, from the outcomes of its requests. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kvroute.demo.outcome import Kind, Outcome


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """One policy's run. Medians in milliseconds, None where nothing was measured.

    `hit_rate`: prompt tokens that came from a cache, as a share of all prompt tokens.
    """

    policy: str
    requests: int
    kinds: Mapping[Kind, int]
    hit_rate: float
    ttft_p50_ms: float | None
    ttft_miss_ms: float | None
    ttft_hit_ms: float | None
    per_worker: Mapping[str, int]

    @property
    def failed(self) -> int:
        return self.kinds[Kind.FAILED]


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs. Miss and hit medians are over all policies: routing does not alter a single one."""

    policies: tuple[PolicySummary, ...]
    requests: int
    failed: int
    ttft_miss_ms: float | None
    ttft_hit_ms: float | None
    worst_prediction: int
    """Largest distance between predicted and delivered hit, in tokens."""


def summarize(runs: Mapping[str, Sequence[Outcome]], block_size: int) -> Summary:
    """`runs`: outcomes by policy, in the order in which they ran."""
    everything = [outcome for outcomes in runs.values() for outcome in outcomes]
    workers = sorted({one.worker_id for one in everything if one.error is None})
    policies = tuple(
        _policy(name, outcomes, block_size, workers) for name, outcomes in runs.items()
    )
    return Summary(
        policies=policies,
        requests=len(everything),
        failed=sum(policy.failed for policy in policies),
        ttft_miss_ms=_ttft(everything, Kind.MISS, block_size),
        ttft_hit_ms=_ttft(everything, Kind.HIT, block_size),
        worst_prediction=max(
            (abs(one.delivered_hit - one.predicted_hit) for one in everything if one.error is None),
            default=0,
        ),
    )


def _policy(
    name: str, outcomes: Sequence[Outcome], block_size: int, workers: Sequence[str]
) -> PolicySummary:
    """`workers`: everybody who served any policy; one that served none of this counts 0."""
    done = [one for one in outcomes if one.error is None]
    kinds = Counter(one.kind(block_size) for one in outcomes)
    served = Counter(one.worker_id for one in done)
    prompt = sum(len(one.request.token_ids) for one in done)
    return PolicySummary(
        policy=name,
        requests=len(outcomes),
        kinds={kind: kinds[kind] for kind in Kind},
        hit_rate=sum(one.cached_tokens for one in done) / prompt if prompt else 0.0,
        ttft_p50_ms=_median(one.ttft_ms for one in done),
        ttft_miss_ms=_ttft(outcomes, Kind.MISS, block_size),
        ttft_hit_ms=_ttft(outcomes, Kind.HIT, block_size),
        per_worker={worker: served[worker] for worker in workers},
    )


def _ttft(outcomes: Iterable[Outcome], kind: Kind, block_size: int) -> float | None:
    return _median(one.ttft_ms for one in outcomes if one.kind(block_size) is kind)


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None
