"""One row out of a run's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.live.record import Record
from loadtest.sim.result import percentile, quantiles

SHARES = ((50, 0.5), (90, 0.9), (95, 0.95), (99, 0.99))
LATE_S = 0.05
LATE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Slo:
    """A request counts as good when both hold. Seconds; 0: not asked for."""

    ttft_s: float = 0.0
    tpot_s: float = 0.0

    def met(self, record: Record) -> bool:
        return (not self.ttft_s or record.ttft <= self.ttft_s) and (
            not self.tpot_s or record.tpot <= self.tpot_s
        )


def fell_behind(records: Sequence[Record]) -> bool:
    """Whether the sender could not keep its times: more than 5 % of the calls left over 50 ms late.
    Such a run measures the client, not the server.
    """
    late = sum(record.lateness > LATE_S for record in records)
    return late > LATE_SHARE * len(records)


def summarize_run(records: Sequence[Record], slo: Slo) -> dict[str, Any]:
    """Times in ms; warm-up left out. TTFT and latency count from the planned time."""
    counted = [record for record in records if not record.warm_up]
    good = [record for record in counted if not record.error]
    row: dict[str, Any] = {
        "requests": len(counted),
        "failed": len(counted) - len(good),
        "fell_behind": fell_behind(counted),
    }
    times = {
        "ttft": sorted(1000.0 * record.ttft for record in good if record.parts),
        "tpot": sorted(1000.0 * record.tpot for record in good if len(record.parts) > 1),
        "itl": sorted(1000.0 * gap for record in good for gap in record.gaps()),
        "lat": sorted(1000.0 * record.latency for record in good),
        "lateness": sorted(1000.0 * record.lateness for record in counted),
    }
    for name, ordered in times.items():
        for number, share in SHARES:
            row[f"{name}_p{number}_ms"] = round(percentile(ordered, share), 2)
    row.update(_rates(counted, good, slo))
    row["ttft_quantiles_ms"] = quantiles(times["ttft"])
    row["latency_quantiles_ms"] = quantiles(times["lat"])
    row["errors"] = dict(Counter(record.error for record in counted if record.error).most_common(5))
    return row


def _rates(counted: Sequence[Record], good: Sequence[Record], slo: Slo) -> dict[str, Any]:
    prompt = sum(record.prompt_tokens for record in good)
    cached = sum(record.cached_tokens for record in good)
    predicted = sum(record.predicted_hit for record in good)
    best = sum(record.best_hit for record in good)
    begun = min((record.sent for record in counted), default=0.0)
    span = max((record.ended for record in counted), default=0.0) - begun
    per_worker = Counter(record.worker for record in good if record.worker)
    computed: Counter[str] = Counter()
    for record in good:
        computed[record.worker] += record.prompt_tokens - record.cached_tokens
    mean = sum(computed.values()) / len(computed) if computed else 0.0
    return {
        "hit_rate": round(cached / prompt, 4) if prompt else 0.0,
        "predicted_hit_rate": round(predicted / prompt, 4) if prompt else 0.0,
        "best_hit_rate": round(best / prompt, 4) if prompt else 0.0,
        "throughput": round(len(good) / span, 3) if span > 0 else 0.0,
        "output_tokens_per_s": round(sum(r.output_tokens for r in good) / span, 2) if span else 0.0,
        "goodput": round(sum(slo.met(record) for record in good) / span, 3) if span > 0 else 0.0,
        "imbalance": round(max(computed.values()) / mean, 3) if mean else 1.0,
        "per_worker": dict(sorted(per_worker.items())),
    }
