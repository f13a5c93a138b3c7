from __future__ import annotations

import json

from worker_svc.bench.evict import bench_evict, filled_pool
from worker_svc.kv.evict.registry import EVICTORS


def test_the_report_has_a_row_per_evictor_and_size() -> None:
    report = bench_evict((500, 1000), rounds=1)
    assert json.loads(json.dumps(report)) == report
    assert {"bench", "commit", "config", "seed", "machine", "rows"} <= set(report)
    assert {(row["evictor"], row["blocks"]) for row in report["rows"]} == {
        (evictor, blocks) for evictor in EVICTORS for blocks in (500, 1000)
    }
    assert all(row["us_per_block"] > 0 and row["walk_ratio"] > 0 for row in report["rows"])


def test_the_measured_pool_is_full_and_consistent() -> None:
    pool = filled_pool("rlt", 1000, 0)
    pool.check()
    assert pool.counts().cached == 1000 and pool.counts().leaves == 8
