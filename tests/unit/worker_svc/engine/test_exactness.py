"""Greedy tokens through the engine equal HuggingFace `generate`, float32, whatever the engine does
to the cache.
"""

from __future__ import annotations

import copy

import pytest

from tests.engine_driver import FakeClock, request, run
from tests.tiny_models import llama_with_references
from worker_svc.attention import plan as plan_module
from worker_svc.engine.core import EngineCore
from worker_svc.engine.options import EngineOptions
from worker_svc.model.runner import ModelRunner

NEW = 24

CASES = {
    "plain": (EngineOptions(blocks=256), 1, 1),
    "prefix hits": (EngineOptions(blocks=256), 2, 2),
    "chunked": (EngineOptions(blocks=256, max_batch_tokens=19, max_running=16), 2, 2),
    "evicting, rlt": (EngineOptions(blocks=24, max_batch_tokens=64), 3, 2),
    "evicting, lru": (EngineOptions(blocks=24, max_batch_tokens=64, evictor="lru"), 3, 2),
    "preempting": (EngineOptions(blocks=19, max_batch_tokens=64, max_running=8), 3, 1),
    "block size 8": (
        EngineOptions(blocks=256, block_size=8, max_batch_tokens=48, max_running=9),
        2,
        2,
    ),
    "block size 32": (EngineOptions(blocks=128, block_size=32), 2, 2),
}


@pytest.mark.parametrize("case", CASES)
def test_staggered_requests_equal_generate(case: str) -> None:
    options, waves, every = CASES[case]
    model, prompts, expected = llama_with_references()
    core = EngineCore(ModelRunner(copy.deepcopy(model)), None, options, FakeClock())
    hits, cached = 0, set[bytes]()
    for wave in range(waves):
        asked = [
            request(100 * wave + i, tokens, options.block_size, max_tokens=NEW)
            for i, tokens in enumerate(prompts)
        ]
        got = run(core, asked, every=every, cached=cached)
        assert [got.tokens[r.request_id] for r in asked] == expected
        hits += sum(admitted.cached_tokens for admitted in got.admitted.values())
    stats = core.stats()
    assert stats.free_blocks + stats.cached_blocks == stats.total_blocks
    if case == "prefix hits":
        assert hits > 500
    if case.startswith("evicting"):
        assert stats.evictions > 20
    if case == "preempting":
        assert stats.preemptions > 0


def test_a_wrong_mask_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: were a block lost from sight, these very comparisons would fail."""
    original = plan_module._first_block
    monkeypatch.setattr(plan_module, "_first_block", lambda *args: original(*args) + (args[0] > 40))
    model, prompts, expected = llama_with_references()
    core = EngineCore(
        ModelRunner(copy.deepcopy(model)), None, EngineOptions(blocks=256), FakeClock()
    )
    asked = [request(i, tokens, max_tokens=NEW) for i, tokens in enumerate(prompts)]
    got = run(core, asked)
    wrong = sum(got.tokens[i] != answer for i, answer in enumerate(expected))
    assert wrong >= 6
