"""Speed of the worker on one machine, beside what users have today, interleaved in one process.

Model: a Llama of 28 M parameters with random weights (hidden 512, 8 layers, 8/4 heads of 64,
vocabulary 8192), saved with `save_pretrained` and loaded by everybody from there. Per round and
contestant:

- prefill_tok_s: prompts of 512 tokens, 4 at once, one token each;
- decode_tok_s: 1, 8, 32 prompts of 128 tokens; tokens per second of the steps after the first;
- ttft_miss_ms, ttft_hit_ms, ttft_suffix_only_ms: 2,000 tokens and 50 more, nothing cached; again
  with other last 50; 50 only.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from kvroute.bench.common import common
from worker_svc.bench.contestant import Clock, Contestant, Measured

VOCAB = 8192
_CONFIG: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}


_CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}


def bench_worker(
    vs: tuple[str, ...] = (),
    *,
    rounds: int = 5,
    seed: int = 0,
    kernel: str = "auto",
    new_tokens: int = 32,
    clock: str = "wall",
) -> dict[str, Any]:
    """Minutes. `vs`: of "hf" (generate, one static batch), "transformers_cb" (generate_batch),
    "vllm" (`make compare-vllm`).

    `clock` "cpu" counts this process's processor time: with one torch thread it compares fairly on
    a machine that others use as well, where wall time says nothing.
    """
    with tempfile.TemporaryDirectory() as name:
        path = save_model(Path(name), seed)
        contestants, missing = _contestants(path, vs, kernel, _CLOCKS[clock])
        results: dict[str, list[Measured]] = {name: [] for name in contestants}
        rng = Random(seed)
        for _ in range(rounds):
            for who, contestant in contestants.items():
                results[who].append(_round(contestant, rng, new_tokens))
        ours = contestants["ours"]
        report = _report(results, missing, getattr(ours, "kernel", ""), rounds)
        for contestant in contestants.values():
            contestant.close()
    config = {
        "model": _CONFIG,
        "rounds": rounds,
        "new_tokens": new_tokens,
        "kernel": kernel,
        "clock": clock,
    }
    return common("worker", config, seed) | report


def save_model(path: Path, seed: int) -> Path:
    """Random weights; nobody looks at the answers."""
    import torch
    import transformers

    torch.manual_seed(seed)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**_CONFIG)).save_pretrained(path)
    return path


def _contestants(
    path: Path, vs: tuple[str, ...], kernel: str, clock: Clock
) -> tuple[dict[str, Contestant], list[dict[str, str]]]:
    from worker_svc.bench import rivals
    from worker_svc.bench.ours import Ours
    from worker_svc.bench.remote import Vllm

    makers: dict[str, Callable[[Path, Clock], Contestant]] = {
        "hf": rivals.HfGenerate,
        "transformers_cb": rivals.GenerateBatch,
        "vllm": Vllm,
    }
    found: dict[str, Contestant] = {"ours": Ours(path, clock, kernel)}
    missing = []
    for name in vs:
        try:
            found[name] = makers[name](path, clock)
        except Exception as error:
            reason = "unknown" if name not in makers else str(error).splitlines()[0]
            missing.append({"name": name, "reason": reason})
    return found, missing


def _round(contestant: Contestant, rng: Random, new_tokens: int) -> Measured:
    def prompt(length: int) -> list[int]:
        return [rng.randrange(1, VOCAB) for _ in range(length)]

    seconds = contestant.first_tokens([prompt(512) for _ in range(4)])
    prefill = 4 * 512 / seconds
    decode = {
        batch: contestant.decode_rate([prompt(128) for _ in range(batch)], new_tokens)
        for batch in (1, 8, 32)
    }
    shared = prompt(2000)
    miss = contestant.first_tokens([shared + prompt(50)])
    hit = contestant.first_tokens([shared + prompt(50)])
    suffix = contestant.first_tokens([prompt(50)])
    return Measured(prefill, decode, miss * 1000, hit * 1000, suffix * 1000)


def _report(
    results: dict[str, list[Measured]], missing: list[dict[str, str]], kernel: str, rounds: int
) -> dict[str, Any]:
    rivals = [name for name in results if name != "ours"]
    ratios = {name: _ratios(results["ours"], results[name]) for name in rivals}
    return {
        "kernel": kernel,
        "rounds": rounds,
        "ours": _summary(results["ours"]),
        "vs": {name: _summary(results[name]) for name in rivals},
        "ratio": {
            name: {key: round(median(values), 3) for key, values in ratios[name].items()}
            for name in rivals
        },
        "range": {
            name: {
                key: [round(min(values), 3), round(max(values), 3)]
                for key, values in ratios[name].items()
            }
            for name in rivals
        },
        "missing": missing,
    }


def _summary(rounds: list[Measured]) -> dict[str, Any]:
    return {
        "prefill_tok_s": round(median(one.prefill_tok_s for one in rounds), 1),
        "decode_tok_s": {
            str(batch): round(median(one.decode_tok_s[batch] for one in rounds), 1)
            for batch in rounds[0].decode_tok_s
        },
        "ttft_miss_ms": round(median(one.ttft_miss_ms for one in rounds), 1),
        "ttft_hit_ms": round(median(one.ttft_hit_ms for one in rounds), 1),
        "ttft_suffix_only_ms": round(median(one.ttft_suffix_only_ms for one in rounds), 1),
    }


def _ratios(ours: list[Measured], theirs: list[Measured]) -> dict[str, list[float]]:
    """Per round, ours better above 1."""
    pairs = list(zip(ours, theirs, strict=True))
    return {
        "prefill": [a.prefill_tok_s / b.prefill_tok_s for a, b in pairs],
        "decode_1": [a.decode_tok_s[1] / b.decode_tok_s[1] for a, b in pairs],
        "decode_8": [a.decode_tok_s[8] / b.decode_tok_s[8] for a, b in pairs],
        "decode_32": [a.decode_tok_s[32] / b.decode_tok_s[32] for a, b in pairs],
        "ttft_hit": [b.ttft_hit_ms / a.ttft_hit_ms for a, b in pairs],
    }
