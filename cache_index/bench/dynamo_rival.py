"""Dynamo's RadixTree binding on the workload of `bench index`: run by the Python of its own
environment.

    python dynamo_rival.py WORKERS BLOCKS SEED   (PYTHONPATH: this repository; needs
    ai-dynamo-runtime)

Prints one JSON line. Imports nothing of ours but the workload, which needs the standard library
only.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from itertools import count

from cache_index.bench.workload import make_workload

REPEATS = 3


def stored(number: int, keys: list[int]) -> bytes:
    blocks = [{"block_hash": key, "tokens_hash": key} for key in keys]
    data = {"stored": {"parent_hash": None, "blocks": blocks}}
    return json.dumps({"event_id": number, "data": data, "dp_rank": 0}).encode()


def main(workers: int, blocks: int, seed: int) -> None:
    tree = import_module("dynamo.llm").RadixTree()
    workload, numbers = make_workload(workers, blocks, seed), count()
    for (shared, own), homes in zip(workload.prompts, workload.homes, strict=True):
        for home in homes:
            tree.apply_event(home, stored(next(numbers), [*shared, *own]))
    samples = []
    for _ in range(REPEATS):
        for prompt in workload.lookups:
            start = time.perf_counter()
            tree.find_matches(prompt).scores  # noqa: B018 (the conversion is part of the price)
            samples.append(time.perf_counter() - start)
    samples.sort()
    row = {
        "workers": workers,
        "blocks": workload.blocks,
        "find_p50_us": round(samples[len(samples) // 2] * 1e6, 1),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
