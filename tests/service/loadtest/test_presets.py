"""The studies of `kvroute sim`: the paper's ablation in order and size, and the JSON they print."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from loadtest.cli.sim import command
from loadtest.sim.grid import Row, Task, mean_over_seeds, run_grid
from loadtest.sim.presets import (
    DEFAULT_EVICTOR,
    PAPER_SEEDS,
    ablation_rows,
    ablation_tasks,
    standings,
)

STUDY = {
    # (policy, evictor) -> P50 latency ms, hit rate, of `simulation.md`
    ("cache_aware@0.5", "lru"): (28543.0, 0.208),
    ("cache_aware@0.5", "rlt"): (22112.0, 0.231),
    ("lbgr", "lru"): (2762.0, 0.340),
    ("lbgr", "rlt"): (2108.0, 0.363),
}


def ablation(seeds: tuple[int, ...], jobs: int) -> dict[tuple[str, str], dict[str, Any]]:
    rows = mean_over_seeds(run_grid(ablation_tasks(seeds, DEFAULT_EVICTOR), None, jobs))
    return {(row["policy"], row["evictor"]): row for row in ablation_rows(rows)}


def check_ablation(found: dict[tuple[str, str], dict[str, Any]]) -> None:
    for key, (p50, hit) in STUDY.items():
        assert found[key]["lat_p50_ms"] == pytest.approx(p50, rel=0.35), key
        assert found[key]["hit_rate"] == pytest.approx(hit, abs=0.02), key
    ours = found["lbgr_plus", DEFAULT_EVICTOR]["lat_p50_ms"]
    assert found["cache_aware@0.5", "lru"]["lat_p50_ms"] >= 20 * ours
    assert found["cache_aware@0.3", "lru"]["lat_p50_ms"] >= 1.3 * ours


def test_one_seed_gives_the_papers_ablation() -> None:
    check_ablation(ablation((1,), jobs=2))


@pytest.mark.soak
def test_five_seeds_give_the_papers_ablation() -> None:
    check_ablation(ablation(PAPER_SEEDS, jobs=2))


def row(cell: str, policy: str, ttft: float, p50: float) -> Row:
    task = Task(cell, policy, "rlt")
    return Row(task, (1,), 10, 0, 1.0, ttft, 1.0, p50, 1.0, 0.5, 1.0, 1.0)


def test_standings_compare_with_the_best_of_each_workload() -> None:
    rows = [
        row("gsp_random", "a", 100.0, 50.0),
        row("gsp_random", "b", 200.0, 40.0),
        row("chat", "a", 90.0, 10.0),
        row("chat", "b", 30.0, 20.0),
    ]
    found = standings(rows)
    assert found["a"]["ttft_p95"] == pytest.approx(3**0.5, abs=1e-4)
    assert found["a"]["worst"] == 3.0 and found["a"]["worst_workload"] == "chat"
    assert found["b"]["lat_p50"] == pytest.approx(2**0.5, abs=1e-4)
    assert found["b"]["lat_p50_worst"] == 2.0


def test_means_over_seeds_keep_the_range() -> None:
    rows = [row("chat", "a", 100.0, 50.0), row("chat", "a", 200.0, 70.0)]
    rows[1] = replace(rows[1], task=replace(rows[1].task, seed=2))
    (mean,) = mean_over_seeds(rows)
    assert (mean.ttft_p95_ms, mean.lat_p50_ms, mean.lat_p50_range) == (150.0, 60.0, (50.0, 70.0))
    assert mean.seeds == (1, 2)


TRACE = [
    {"timestamp": 3000 * i, "input_length": 1600, "output_length": 5, "hash_ids": [0, i % 3, 9 + i]}
    for i in range(30)
]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(command, arguments)


def test_a_trace_file_is_replayed_and_printed_as_one_json_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in TRACE))
    out = tmp_path / "out.jsonl"
    done = run(
        *("--workload", str(path), "--workers", "2", "--blocks", "40", "--json"),
        *("--policy", "lbgr_plus", "--policy", "round_robin", "--evictor", "lru"),
        *("--out", str(out), "--csv", str(tmp_path / "rows.csv")),
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.output.splitlines()[-1])
    assert {"bench", "commit", "config", "seed", "machine", "rows", "workload"} <= set(result)
    assert [one["policy"] for one in result["rows"]] == ["lbgr_plus", "round_robin"]
    assert all(one["calls"] == 30 for one in result["rows"])
    assert json.loads(out.read_text()) == result
    with (tmp_path / "rows.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["policy"] for line in lines] == ["lbgr_plus", "round_robin"]
    assert float(lines[0]["hit_rate"]) == result["rows"][0]["hit_rate"]
    assert "timeline" not in lines[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workload", "nothing"), "neither a trace file nor a cell"),
        (("--workload", "chat", "--policy", "best"), "unknown policy best"),
        (("--workload", "chat", "--policy", "llmd:x=1"), "no option 'x'"),
        (("--workload", "chat", "--evictor", "magic"), "unknown evictor magic"),
        (("--workload", "chat", "--fail", "x"), "WORKER@SECONDS"),
        (("--workload", "chat", "--seeds", "one"), "whole numbers"),
        (("--preset", "single-worker", "--workload", "chat,tea"), "no workload tea"),
        ((), "say what to simulate"),
    ],
)
def test_wrong_use_is_said_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)
    assert done.exception is not None and said in str(done.exception)


def test_list_names_everything() -> None:
    done = run("--list")
    assert done.exit_code == 0
    for name in ("gsp_random", "held_burst", "cache_aware", "rlt"):
        assert name in done.output


def test_a_study_can_be_cut_down_to_some_workloads() -> None:
    done = run(
        *("--preset", "single-worker", "--workload", "cyclic", "--json"),
        *("--evictor", "lru", "--evictor", "belady"),
    )
    rows = json.loads(done.output.splitlines()[-1])["rows"]
    assert [row["evictor"] for row in rows] == ["lru"] * 4 + ["belady"] * 4
    assert {row["workload"] for row in rows} == {"cyclic"}
    assert [row["hit_rate"] for row in rows[:4]] == [0.0] * 4
