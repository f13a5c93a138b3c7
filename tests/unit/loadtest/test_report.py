"""Reports: every kind of result becomes pictures and a page; broken files are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadtest.report.build import build
from loadtest.report.results import ReportError, read_results
from loadtest.report.style import milliseconds

PNG = b"\x89PNG"


def result(rows: list[dict[str, Any]], **more: Any) -> str:
    return (
        json.dumps({"bench": "sim", "commit": "c0ffee", "seed": [1], "rows": rows, **more}) + "\n"
    )


def ablation() -> str:
    rows = [
        {
            "policy": policy,
            "evictor": "lru",
            "lat_p50_ms": time,
            "lat_p50_range_ms": [time * 0.9, time * 1.1],
            "ttft_p50_ms": time / 2,
            "hit_rate": hit,
            "seeds": [1, 2],
        }
        for policy, time, hit in (("cache_aware@0.5", 25000.0, 0.2), ("lbgr_plus", 800.0, 0.46))
    ]
    return result(rows)


def workloads() -> str:
    rows = [
        {
            "workload": cell,
            "policy": policy,
            "evictor": "rlt",
            "ttft_p95_ms": time,
            "lat_p50_ms": time / 3,
            "hit_rate": 0.4,
        }
        for cell in ("chat", "drift")
        for policy, time in (("lbgr_plus", 300.0), ("llmd", 500.0))
    ]
    standing = {"ttft_p95": 1.0, "worst": 1.0, "lat_p50": 1.0, "lat_p50_worst": 1.0}
    return result(rows, geomean={"lbgr_plus": standing, "llmd": {**standing, "ttft_p95": 1.67}})


def single() -> str:
    rows = [
        {
            "workload": "chat",
            "evictor": evictor,
            "cache_fraction": fraction,
            "hit_rate": fraction * scale,
            "endless_hit_rate": 0.8,
        }
        for evictor, scale in (("lru", 0.5), ("arc_mix", 0.6), ("belady", 0.8))
        for fraction in (0.25, 0.5, 0.9)
    ]
    return result(rows)


def runs() -> str:
    row = {
        "workload": "chat",
        "policy": "lbgr_plus",
        "evictor": "rlt",
        "seed": 1,
        "ttft_quantiles_ms": [1.0, 5.0, 80.0],
        "latency_quantiles_ms": [2.0, 9.0, 99.0],
        "timeline": {
            "interval_s": 0.25,
            "running": [[1, 2]] * 250,
            "waiting": [[0, 1]] * 250,
        },
    }
    return result([row, {**row, "policy": "llmd", "timeline": {}}], config={"workload": "chat"})


def test_every_kind_of_result_becomes_a_page_with_its_pictures(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("chatter before\n" + ablation() + workloads() + single() + runs())
    assert [one.kind for one in read_results([path])] == [
        "ablation",
        "workloads",
        "single",
        "runs",
    ]
    page = build([path], tmp_path / "out").read_text()
    pictures = sorted((tmp_path / "out").glob("*.png"))
    assert len(pictures) == 6
    assert all(picture.read_bytes().startswith(PNG) for picture in pictures)
    assert page.count("data:image/png;base64,") == 6
    assert "http://" not in page and "https://" not in page, "self-contained"
    assert "c0ffee" in page and "lbgr_plus" in page


def test_same_results_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(ablation())
    first = build([path], tmp_path / "a").read_bytes()
    assert first == build([path], tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no result in it"),
        ('{"bench": 1\n', "bad.jsonl:1"),
        ('{"rows": [{}]}\n', "no `bench`"),
        ('{"bench": "sim", "rows": []}\n', "no `rows`"),
    ],
)
def test_broken_results_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(ReportError, match=said):
        read_results([path])
    with pytest.raises(ReportError, match="cannot be read"):
        read_results([tmp_path / "none.jsonl"])


def test_names_from_results_cannot_inject_markup(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(ablation().replace("lbgr_plus", "<script>alert(1)</script>"))
    assert "<script>" not in build([path], tmp_path / "out").read_text()


@pytest.mark.parametrize(
    ("value", "text"), [(850.4, "850 ms"), (2400.0, "2.4 s"), (28543.0, "29 s")]
)
def test_times_read_well(value: float, text: str) -> None:
    assert milliseconds(value) == text
