"""Random tiny models, built in code, whose greedy outputs are diverse enough to prove something.

Embeddings are untied and weights large (std 0.2): a tied or small random model repeats one token
whatever attention does.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import torch
import transformers

VOCAB = 199

_BASE = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
}


def config(kind: str, **changes: Any) -> Any:
    """`kind` is a config class of transformers without "Config"."""
    return getattr(transformers, f"{kind}Config")(**{**_BASE, **changes})


def build(model_config: Any, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return transformers.AutoModelForCausalLM.from_config(model_config, dtype=torch.float32).eval()


def llama(**changes: Any) -> Any:
    return build(config("Llama", **changes))


def prompts(seed: int = 0, count: int = 8) -> list[list[int]]:
    """1 to 119 tokens; every second one shares 32 to 70 tokens with the others."""
    rng = random.Random(seed)
    common = [rng.randrange(1, VOCAB) for _ in range(70)]
    out = []
    for index in range(count):
        if index % 2:
            head, tail = common[: rng.choice([32, 48, 70])], rng.randrange(3, 40)
        else:
            head, tail = [], rng.randrange(1, 120)
        out.append(head + [rng.randrange(1, VOCAB) for _ in range(tail)])
    return out


def references(model: Any, asked: Sequence[list[int]], new_tokens: int) -> list[list[int]]:
    """What `generate` says, greedy, one prompt at a time. Asserts that the answers are diverse."""
    out = []
    with torch.inference_mode():
        for prompt in asked:
            found = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                do_sample=False,
                max_new_tokens=new_tokens,
                min_new_tokens=new_tokens,
            )
            out.append(found[0, len(prompt) :].tolist())
    distinct = sum(len(set(answer)) for answer in out) / len(out)
    assert distinct > new_tokens / 3, (
        f"references repeat themselves: {distinct:.1f} distinct tokens"
    )
    assert len({tuple(answer) for answer in out}) == len(out), "two prompts have one answer"
    return out


@functools.cache
def llama_with_references() -> tuple[Any, list[list[int]], list[list[int]]]:
    """A model in its stock state, prompts, and answers of 24 tokens. Shared: copy before changing
    the model.
    """
    model = llama()
    asked = prompts()
    return model, asked, references(model, asked, 24)
