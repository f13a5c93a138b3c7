"""What the demo must show, each as one check with its figures. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kvroute.demo.summary import PolicySummary, Summary

MISS_OVER_HIT = 5.0
HIT_RATE_RATIO = 1.3


@dataclass(frozen=True, slots=True)
class Check:
    """`text` says what must hold and what was measured, in one line."""

    ok: bool
    text: str


def check_all(summary: Summary, baseline: str, better: str, block_size: int) -> tuple[Check, ...]:
    """The four checks. `baseline` and `better` are names of policies in the summary."""
    by_name = {policy.policy: policy for policy in summary.policies}
    return (
        _no_failures(summary),
        _prediction(summary, block_size),
        _speed(summary),
        _hit_rate(by_name[baseline], by_name[better]),
    )


def _no_failures(summary: Summary) -> Check:
    text = f"every request succeeds: {summary.failed} of {summary.requests} failed"
    return Check(summary.failed == 0, text)


def _prediction(summary: Summary, block_size: int) -> Check:
    worst = summary.worst_prediction
    text = (
        f"delivered hits are the predicted ones within one block ({block_size} tokens): "
        f"largest difference {worst} tokens"
    )
    return Check(worst <= block_size, text)


def _speed(summary: Summary) -> Check:
    what = f"first token {MISS_OVER_HIT:g} times faster on a hit"
    miss, hit = summary.ttft_miss_ms, summary.ttft_hit_ms
    if miss is None or hit is None:
        return Check(False, f"{what}: no {'misses' if miss is None else 'hits'} to measure")
    ratio = miss / hit
    return Check(
        ratio >= MISS_OVER_HIT, f"{what}: {miss:.0f} ms / {hit:.0f} ms = {ratio:.1f} times"
    )


def _hit_rate(baseline: PolicySummary, better: PolicySummary) -> Check:
    what = f"{better.policy} hits {HIT_RATE_RATIO:g} times as often as {baseline.policy}"
    if baseline.hit_rate == 0:
        return Check(better.hit_rate > 0, f"{what}: {better.hit_rate:.3f} against 0")
    ratio = better.hit_rate / baseline.hit_rate
    text = f"{what}: {better.hit_rate:.3f} / {baseline.hit_rate:.3f} = {ratio:.2f} times"
    return Check(ratio >= HIT_RATE_RATIO, text)
