"""What a load test computes from its records."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kvroute.errors import KvrouteError
from loadtest.live.compare import compare
from loadtest.live.real_run import same_order
from loadtest.live.record import Record
from loadtest.live.record_file import load_records, save_records
from loadtest.live.summary import Slo, summarize_run


def record(number: int, ttft: float = 0.1, gap: float = 0.02, late: float = 0.0) -> Record:
    planned = float(number)
    start = planned + ttft
    return Record(
        number,
        planned,
        planned + late,
        prompt_tokens=100,
        output_tokens=5,
        cached_tokens=60,
        predicted_hit=70,
        best_hit=80,
        worker=f"w{number % 2}",
        ended=start + 4 * gap,
        parts=[(start + step * gap, 1) for step in range(5)],
    )


def test_times_count_from_the_planned_moment() -> None:
    one = record(3, ttft=0.5, late=0.2)
    assert one.ttft == pytest.approx(0.5)
    assert one.lateness == pytest.approx(0.2)
    assert one.tpot == pytest.approx(0.02)
    assert one.gaps() == pytest.approx([0.02] * 4)


def test_a_row_has_percentiles_rates_and_goodput() -> None:
    records = [record(number, ttft=0.01 * (number + 1)) for number in range(100)]
    records[7].error = "worker lost"
    row = summarize_run(records, Slo(ttft_s=0.5))
    assert (row["requests"], row["failed"], row["fell_behind"]) == (100, 1, False)
    assert row["ttft_p50_ms"] == pytest.approx(510, abs=15)
    assert row["ttft_p95_ms"] == pytest.approx(960, abs=15)
    assert row["itl_p99_ms"] == pytest.approx(20.0)
    assert row["hit_rate"] == 0.6 and row["predicted_hit_rate"] == 0.7
    assert row["goodput"] == pytest.approx(row["throughput"] * 49 / 99, rel=0.01)
    assert row["per_worker"] == {"w0": 50, "w1": 49}
    assert row["errors"] == {"worker lost": 1}
    assert len(row["ttft_quantiles_ms"]) == 101


def test_warm_up_is_left_out() -> None:
    records = [record(number) for number in range(10)]
    for one in records[:4]:
        one.warm_up = True
    assert summarize_run(records, Slo())["requests"] == 6


def test_a_sender_that_fell_behind_says_so() -> None:
    records = [record(number, late=0.2 if number < 6 else 0.0) for number in range(100)]
    assert summarize_run(records, Slo())["fell_behind"]
    assert not summarize_run(records[6:], Slo())["fell_behind"]


def test_bootstrap_finds_a_real_difference_and_no_false_one() -> None:
    rng = Random(1)
    first = [record(number, ttft=rng.uniform(0.1, 1.0)) for number in range(300)]
    same = [record(one.number, ttft=one.ttft * rng.uniform(0.97, 1.03)) for one in first]
    slower = [record(one.number, ttft=one.ttft * 1.3) for one in first]
    assert not any(one.certain for one in compare(first, same, rounds=200) if "p95" in one.measure)
    found = {one.measure: one for one in compare(first, slower, rounds=200)}
    assert found["ttft_p50"].certain
    assert found["ttft_p50"].low < 1.3 < found["ttft_p50"].high + 0.05
    with pytest.raises(ValueError, match="both runs"):
        compare(first, [])


def test_records_read_back(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    records = [record(number) for number in range(3)]
    save_records(records, path)
    assert load_records(path) == records
    path.write_text('{"number": 1}\n')
    with pytest.raises(KvrouteError, match=r"records\.jsonl:1"):
        load_records(path)


def test_real_and_predicted_order_are_compared_by_median_latency() -> None:
    rows = [
        {"system": "a", "real_lat_p50_ms": 900.0, "sim_lat_p50_ms": 700.0},
        {"system": "b", "real_lat_p50_ms": 300.0, "sim_lat_p50_ms": 350.0},
    ]
    assert same_order(rows)
    rows[1]["sim_lat_p50_ms"] = 800.0
    assert not same_order(rows)
