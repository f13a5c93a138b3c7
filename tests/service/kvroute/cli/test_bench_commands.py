"""The benchmarks run as a user would, in small; no times are judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cache_index.embedded import EmbeddedServer
from kvroute.cli.bench.main import BENCHES
from kvroute.cli.main import run

pytestmark = pytest.mark.usefixtures("restore_logging")

COMMON = {"bench", "commit", "config", "seed", "machine"}


@pytest.fixture
def bench(capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs a benchmark with --json; its one object."""

    def call(*args: str) -> dict[str, Any]:
        assert run(["bench", *args, "--json"]) == 0
        lines = capfd.readouterr().out.splitlines()
        assert len(lines) == 1
        found: dict[str, Any] = json.loads(lines[0])
        assert found.keys() >= COMMON
        assert found["bench"] == args[0]
        return found

    return call


def test_index_measures_and_lists_rivals_that_are_not_there(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvroute.bench.rivals.FOLDER", str(tmp_path / "nothing"))
    found = bench(
        *("index", "--workers", "4", "--blocks", "4000"),
        *("--bootstrap-blocks", "500", "--vs", "dynamo,other"),
    )
    (row,) = found["rows"]
    assert row["workers"] == 4
    assert [one["name"] for one in found["missing"]] == ["other", "dynamo"]
    assert found["missing"][1]["reason"] == "not installed: make compare-dynamo"
    assert "vs" not in found


def test_route_starts_a_server_of_its_own(bench: Any) -> None:
    found = bench("route", "--concurrency", "1,4", "--workers", "8", "--seconds", "0.05")
    assert [row["concurrency"] for row in found["rows"]] == [1, 4]
    assert found["redis_us_per_call"] > 0


def test_route_uses_a_given_server(bench: Any, valkey_process: EmbeddedServer) -> None:
    found = bench(
        *("route", "--concurrency", "1", "--seconds", "0.05"),
        *("--redis-url", valkey_process.url),
    )
    assert len(found["rows"]) == 1


def test_evict_has_a_row_per_evictor(bench: Any) -> None:
    found = bench("evict", "--sizes", "1000", "--rounds", "1")
    assert {row["evictor"] for row in found["rows"]} >= {"lru", "rlt"}


def test_worker_passes_its_options(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # The real one takes a minute; worker_svc/bench has tests of its own.
    seen: dict[str, Any] = {}

    def fake(vs: tuple[str, ...], **options: Any) -> dict[str, Any]:
        seen.update(options, vs=vs)
        return dict.fromkeys(COMMON) | {"bench": "worker"}

    monkeypatch.setattr("worker_svc.bench.worker.bench_worker", fake)
    bench("worker", "--vs", "hf,vllm", "--rounds", "2", "--clock", "cpu")
    assert seen == {
        "vs": ("hf", "vllm"),
        "rounds": 2,
        "seed": 0,
        "kernel": "auto",
        "new_tokens": 32,
        "clock": "cpu",
    }


def test_without_json_a_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "evict", "--sizes", "1000", "--rounds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "us_per_block" in shown
    assert "{" not in shown


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["index", "--workers", "4,x"], "numbers of 1 or more"),
        (["index", "--blocks", "0"], "numbers of 1 or more"),
        (["route", "--workers", "2", "--candidates", "3"], "3 candidates of 2 workers"),
        (["rout"], "Did you mean route?"),
    ],
)
def test_wrong_usage_is_refused(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", *args]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(BENCHES))
def test_every_benchmark_teaches_by_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"kvroute bench {name}" in shown
