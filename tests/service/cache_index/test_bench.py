"""The benchmarks run, in small, and say what they promise (no times are judged here)."""

from __future__ import annotations

import json

from cache_index.bench.index import bench_index, measure_row
from cache_index.bench.route import bench_route
from cache_index.embedded import EmbeddedServer

COMMON = {"bench", "commit", "config", "seed", "machine"}


def test_index_bench_has_a_row_per_size(valkey_process: EmbeddedServer) -> None:
    result = bench_index((4,), (5000,), redis_url=valkey_process.url, bootstrap_blocks=1000)
    assert json.loads(json.dumps(result)) == result
    assert result.keys() == COMMON | {"rows", "bootstrap_100k_s"}
    (row,) = result["rows"]
    assert row.keys() >= {"workers", "blocks", "gallop_p50_us", "walk_p50_us", "apply_per_s"}
    assert row["bytes_per_block"] >= 0


def test_lookups_of_a_row_are_checked_against_the_walk() -> None:
    assert measure_row(70, 7000, seed=1)["blocks"] > 3000


async def test_route_bench_has_a_row_per_concurrency(valkey: str) -> None:
    result = await bench_route(valkey, concurrency=(1, 8), seconds=0.1)
    assert json.loads(json.dumps(result)) == result
    assert result.keys() == COMMON | {"rows", "redis_us_per_call"}
    for row in result["rows"]:
        assert row.keys() >= {"concurrency", "calls_per_s", "p50_us", "p99_us"}
        assert row["calls_per_s"] > 0
