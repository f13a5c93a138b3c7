"""Tables as Markdown: losses are named, the frame is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadtest.report.markdown import MARK, write_markdown
from loadtest.report.results import ReportError

FRAME = f"# Title\n\n{MARK}\n\nThe end.\n"


def written(folder: Path, rows: list[dict[str, Any]], **more: Any) -> str:
    head = {"bench": "sim", "commit": "c0ffee", "seed": [1, 2]}
    (folder / "r.jsonl").write_text(json.dumps({**head, "rows": rows, **more}))
    write_markdown([folder / "r.jsonl"], folder / "b.md", FRAME)
    return (folder / "b.md").read_text()


def row(workload: str, policy: str, ttft: float, p50: float) -> dict[str, Any]:
    return {
        "workload": workload,
        "policy": policy,
        "evictor": "rlt",
        "ttft_p95_ms": ttft,
        "lat_p50_ms": p50,
        "hit_rate": 0.4,
    }


def test_losses_are_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    rows = [
        row("chat", "lbgr_plus", 300.0, 100.0),
        row("chat", "llmd", 350.0, 80.0),
        row("drift", "lbgr_plus", 100.0, 50.0),
        row("drift", "llmd", 104.0, 52.0),
    ]
    text = written(tmp_path, rows)
    assert text.startswith("# Title") and text.endswith("The end.\n")
    assert "**Where we lose**: chat, median latency: 1.25x of llmd." in text
    assert "| chat | 300 ms / 100 ms, 40 % | 350 ms / 80 ms, 40 % |" in text
    assert "Commit c0ffee, seeds 1, 2." in text


def test_the_paper_stands_beside_our_ablation(tmp_path: Path) -> None:
    rows = [
        {
            "policy": "lbgr",
            "evictor": "rlt",
            "lat_p50_ms": 2000.0,
            "lat_p50_range_ms": [1900.0, 2100.0],
            "ttft_p50_ms": 900.0,
            "ttft_p95_ms": 4000.0,
            "hit_rate": 0.36,
        }
    ]
    assert "| lbgr + rlt | 2.0 s | 1.9 s to 2.1 s | 4.0 s | 36.0 % | 2.3 s | 37.3 % |" in written(
        tmp_path, rows
    )


def test_hit_rates_stand_by_cache_size(tmp_path: Path) -> None:
    rows = [
        {"workload": "chat", "evictor": name, "cache_fraction": share, "hit_rate": share * scale}
        for name, scale in (("lru", 0.5), ("belady", 0.8))
        for share in (0.25, 0.5)
    ]
    assert "| chat | 12.5 25.0 | 20.0 40.0 |" in written(tmp_path, rows)


def test_a_frame_without_a_mark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no line"):
        write_markdown([], tmp_path / "b.md", "# Title\n")
