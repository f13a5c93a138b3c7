"""Greedy tokens through the engine equal HuggingFace `generate`, float32, whatever the engine
does to the cache.

Every architecture runs every case. The controls at the end break one thing each and must be
noticed: a pass proves something only where a fault would show.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine_driver import FakeClock, request, run
from tests.tiny_models import ARCHITECTURES, NEW, with_references
from worker_svc.attention import plan
from worker_svc.attention.paged import PagedAttention
from worker_svc.engine.core import EngineCore
from worker_svc.engine.options import EngineOptions
from worker_svc.kv.evict.registry import EVICTORS
from worker_svc.model.runner import ModelRunner

# Options, waves of the same requests, ticks between arrivals.
CASES = {
    "plain": (EngineOptions(blocks=256), 1, 1),
    "prefix hits": (EngineOptions(blocks=256), 2, 2),
    "chunked": (EngineOptions(blocks=256, max_batch_tokens=19, max_running=16), 1, 2),
    "evicting": (EngineOptions(blocks=22, max_batch_tokens=64), 2, 2),
    "preempting": (EngineOptions(blocks=19, max_batch_tokens=64, max_running=8), 1, 1),
    "block size 8": (
        EngineOptions(blocks=256, block_size=8, max_batch_tokens=48, max_running=9),
        1,
        2,
    ),
    "block size 32": (EngineOptions(blocks=128, block_size=32), 1, 2),
}


def serve(model: Any, case: str, **changes: Any) -> tuple[list[list[int]], EngineCore, int]:
    """Answers of the last wave, the core, and tokens found in the cache."""
    options, waves, every = CASES[case]
    options = dataclasses.replace(options, **changes)
    _, prompts, _ = with_references("llama")
    core = EngineCore(ModelRunner(model), None, options, FakeClock())
    cached, hits, answers = set[bytes](), 0, []
    for wave in range(waves):
        asked = [
            request(100 * wave + i, tokens, options.block_size, max_tokens=NEW)
            for i, tokens in enumerate(prompts)
        ]
        got = run(core, asked, every=every, cached=cached)
        answers = [got.tokens[r.request_id] for r in asked]
        hits += sum(admitted.cached_tokens for admitted in got.admitted.values())
    return answers, core, hits


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_staggered_requests_equal_generate(architecture: str, case: str) -> None:
    model, _, expected = with_references(architecture)
    answers, core, hits = serve(copy.deepcopy(model), case)
    assert answers == expected
    stats = core.stats()
    assert stats.free_blocks + stats.cached_blocks == stats.total_blocks
    assert hits > 500 or case != "prefix hits"
    assert stats.evictions > 20 or case != "evicting"
    assert stats.preemptions > 0 or case != "preempting"


@pytest.mark.parametrize("evictor", sorted(EVICTORS))
@pytest.mark.parametrize("architecture", ["llama", "gemma2"])
def test_every_evictor_is_exact(architecture: str, evictor: str) -> None:
    model, _, expected = with_references(architecture)
    answers, core, _ = serve(copy.deepcopy(model), "evicting", evictor=evictor)
    assert answers == expected and core.stats().evictions > 20


Change = Callable[[dict[str, Any]], None]


def _narrow(arguments: dict[str, Any]) -> None:
    if arguments.get("sliding_window"):
        arguments["sliding_window"] -= 1


def _drop(name: str) -> Change:
    def change(arguments: dict[str, Any]) -> None:
        arguments[name] = None

    return change


def _scale(arguments: dict[str, Any]) -> None:
    arguments["softcap"] = 1.05 if arguments.get("softcap") else None


@pytest.mark.parametrize(
    ("architecture", "change", "least"),
    [
        ("mistral sliding", _narrow, 6),
        ("qwen2 sliding", _narrow, 6),
        ("gemma2", _drop("softcap"), 6),
        ("gemma2", _scale, 3),
        ("gpt_oss", _drop("s_aux"), 6),
        ("gpt_oss", _drop("sliding_window"), 6),
        ("gemma3", _drop("sliding_window"), 6),
    ],
)
def test_a_wrong_window_softcap_or_sink_would_show(
    architecture: str, change: Change, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _, expected = with_references(architecture)
    model = copy.deepcopy(model)
    forward = PagedAttention.forward

    def changed(self: PagedAttention, *args: Any, **arguments: Any) -> Any:
        change(arguments)
        return forward(self, *args, **arguments)

    monkeypatch.setattr(PagedAttention, "forward", changed)
    answers, _, _ = serve(model, "plain")
    assert sum(a != b for a, b in zip(answers, expected, strict=True)) >= least


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "opt"])
def test_a_wrong_position_would_show(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions that stay behind by one after 40 tokens."""
    model, _, expected = with_references(architecture)
    model = copy.deepcopy(model)
    runner_logits = ModelRunner._forward

    def wrong(self: ModelRunner, inputs: Any) -> Any:
        inputs.positions.sub_((inputs.positions > 40).long())
        return runner_logits(self, inputs)

    monkeypatch.setattr(ModelRunner, "_forward", wrong)
    answers, _, _ = serve(model, "plain")
    assert sum(a != b for a, b in zip(answers, expected, strict=True)) >= 4


def test_a_block_lost_from_sight_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    original = plan._first_block
    monkeypatch.setattr(plan, "_first_block", lambda *args: original(*args) + (args[0] > 40))
    model, _, expected = with_references("llama")
    answers, _, _ = serve(copy.deepcopy(model), "plain")
    assert sum(a != b for a, b in zip(answers, expected, strict=True)) >= 6
