"""Results for people."""

from __future__ import annotations

from rich.console import Console

from kvroute.bench.common import common
from kvroute.bench.table import shown


def test_everything_measured_is_shown() -> None:
    result = common("x", {}, 1) | {
        "rows": [{"size": 4, "us": 1.25}, {"size": 8, "late": "yes"}],
        "vs": {"rival": [{"size": 4, "find_us": 33}]},
        "ours": {"ttft_ms": 7.5, "decode": {"1": 40.0}},
        "range": [1, 2],
        "missing": [],
    }
    console = Console(width=100)
    with console.capture() as capture:
        console.print(shown(result))
    text = capture.get()
    for part in ("bench x", "size", "1.25", "yes", "vs.rival", "find_us", "33"):
        assert part in text
    assert "ours.ttft_ms: 7.5" in text
    assert "ours.decode.1: 40.0" in text
    assert "range: 1, 2" in text
    assert "missing" not in text
