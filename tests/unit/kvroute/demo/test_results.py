"""Kinds, figures, checks and the result line, from made-up outcomes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from kvroute.demo.checks import check_all
from kvroute.demo.outcome import Kind, Outcome
from kvroute.demo.report import check_line, outcome_line, result_line, table
from kvroute.demo.summary import Summary, summarize
from kvroute.demo.workload import DemoRequest

BLOCK = 16
REQUEST = DemoRequest("json", "Q?", tuple(range(2032)), 2000)
MISS = Outcome(REQUEST, worker_id="worker-0", ttft_ms=5000.0, text="A\nthing")
HIT = replace(MISS, ttft_ms=400.0, cached_tokens=2000, predicted_hit=2000, delivered_hit=2000)
FAILED = Outcome(REQUEST, error="nobody can serve this")


def good() -> Summary:
    other = replace(HIT, worker_id="worker-1")
    return summarize(
        {"round_robin": [MISS, MISS, HIT, other], "lbgr_plus": [MISS, HIT, HIT, other]}, BLOCK
    )


def failing(summary: Summary) -> list[str]:
    checks = check_all(summary, "round_robin", "lbgr_plus", BLOCK)
    return [check.text for check in checks if not check.ok]


@pytest.mark.parametrize(
    ("cached", "kind"),
    [(0, Kind.MISS), (16, Kind.MISS), (1000, Kind.PARTIAL), (1984, Kind.PARTIAL), (1985, Kind.HIT)],
)
def test_kind_follows_from_the_delivered_tokens(cached: int, kind: Kind) -> None:
    assert replace(MISS, cached_tokens=cached).kind(BLOCK) is kind
    assert FAILED.kind(BLOCK) is Kind.FAILED


def test_summary_counts_and_takes_medians() -> None:
    summary = good()
    first, second = summary.policies
    assert (summary.requests, summary.failed) == (8, 0)
    assert first.hit_rate == pytest.approx(4000 / (4 * 2032))
    assert second.hit_rate == pytest.approx(6000 / (4 * 2032))
    assert (summary.ttft_miss_ms, summary.ttft_hit_ms) == (5000.0, 400.0)
    assert first.per_worker == {"worker-0": 3, "worker-1": 1}
    assert (first.kinds[Kind.MISS], first.kinds[Kind.HIT]) == (2, 2)


def test_all_checks_hold_for_a_good_run() -> None:
    assert failing(good()) == []


def test_each_check_fails_with_its_figures() -> None:
    slow = replace(HIT, ttft_ms=2000.0)
    wrong = replace(HIT, predicted_hit=HIT.delivered_hit - BLOCK - 1)
    runs = {"round_robin": [MISS, slow], "lbgr_plus": [MISS, slow, wrong, FAILED]}
    texts = failing(summarize(runs, BLOCK))
    assert any("1 of 6 failed" in text for text in texts)
    assert any("largest difference 17 tokens" in text for text in texts)
    assert any("5000 ms / 2000 ms = 2.5 times" in text for text in texts)
    assert any("lbgr_plus hits 1.3 times" in text for text in failing(summarize(
        {"round_robin": [MISS, HIT], "lbgr_plus": [MISS, HIT]}, BLOCK
    )))  # fmt: skip


def test_nothing_measured_is_a_failed_check_and_not_a_crash() -> None:
    summary = summarize({"round_robin": [FAILED], "lbgr_plus": [FAILED]}, BLOCK)
    assert any("no misses to measure" in text for text in failing(summary))
    assert summary.policies[0].ttft_p50_ms is None


def test_result_line_holds_the_promised_keys() -> None:
    shown = json.loads(result_line(good(), {"seed": 1}))
    assert set(shown["policies"]) == {"round_robin", "lbgr_plus"}
    assert shown["policies"]["lbgr_plus"]["ttft_p50_ms"] == 400.0
    assert (shown["requests"], shown["failed"], shown["seed"]) == (8, 0, 1)
    assert (shown["ttft_miss_ms"], shown["ttft_hit_ms"]) == (5000.0, 400.0)


def test_report_is_readable() -> None:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table(good()))
        for check in check_all(good(), "round_robin", "lbgr_plus", BLOCK):
            console.print(check_line(check))
        console.print(outcome_line(HIT, BLOCK))
        console.print(outcome_line(FAILED, BLOCK))
    shown = capture.get()
    for part in ("73.8%", "5,000 ms", "3 / 1", "12.5 times", "A thing", "nobody can serve this"):
        assert part in shown
