"""The report of `bench worker`; the measuring itself needs minutes and is not run here."""

from __future__ import annotations

import json

from worker_svc.bench.contestant import Measured
from worker_svc.bench.worker import _report


def measured(speed: float) -> Measured:
    rates = {batch: batch * speed for batch in (1, 8, 32)}
    return Measured(100 * speed, rates, 40 / speed, 20 / speed, 10 / speed)


def test_ratios_are_per_round_and_better_is_more_than_one() -> None:
    results = {"ours": [measured(2), measured(3), measured(4)], "hf": [measured(1)] * 3}
    report = _report(results, [{"name": "vllm", "reason": "not installed"}], "native", 3)
    assert json.loads(json.dumps(report)) == report
    assert report["ours"]["decode_tok_s"] == {"1": 3, "8": 24, "32": 96}
    keys = {"prefill", "decode_1", "decode_8", "decode_32", "ttft_hit"}
    assert report["ratio"]["hf"] == dict.fromkeys(keys, 3)
    assert report["range"]["hf"] == dict.fromkeys(keys, [2, 4])
    assert report["missing"][0]["name"] == "vllm" and report["kernel"] == "native"
