"""Random tiny models, built in code, whose greedy outputs are diverse enough to prove something.

Embeddings are untied and weights large (std 0.2): a tied or small random model repeats one token
whatever attention does.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers

VOCAB = 199
NEW = 24
"""Tokens of a reference answer."""

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


_SMALL_HEADS = {"head_dim": 16}
_GPT2 = {
    "vocab_size": VOCAB,
    "n_embd": 64,
    "n_layer": 4,
    "n_head": 4,
    "n_positions": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
}
_OPT = {
    "ffn_dim": 96,
    "word_embed_proj_dim": 64,
    "init_std": 0.2,
}
_WINDOW = {"sliding_window": 24}
_GEMMA = {**_SMALL_HEADS, **_WINDOW, "query_pre_attn_scalar": 16}
_EXPERTS = {"num_experts_per_tok": 2}
_DEEPSEEK = {
    **_EXPERTS,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "first_k_dense_replace": 1,
}

ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "llama": lambda: config("Llama"),
    "qwen2": lambda: config("Qwen2"),
    "qwen2 sliding": lambda: config(
        "Qwen2", use_sliding_window=True, max_window_layers=2, **_WINDOW
    ),
    "qwen3": lambda: config("Qwen3", **_SMALL_HEADS),
    "mistral": lambda: config("Mistral", sliding_window=None),
    "mistral sliding": lambda: config("Mistral", **_WINDOW),
    "gemma": lambda: config("Gemma", **_SMALL_HEADS),
    # A softcap of 1 changes every output; the usual 50 would change none of these.
    "gemma2": lambda: config("Gemma2", attn_logit_softcapping=1.0, **_GEMMA),
    "gemma3": lambda: config("Gemma3Text", **_GEMMA),
    "gpt2": lambda: transformers.GPT2Config(**_GPT2),
    "opt": lambda: config("OPT", **_OPT),
    "gpt_neox": lambda: config("GPTNeoX"),
    "phi": lambda: config("Phi"),
    "phi3": lambda: config("Phi3", sliding_window=None),
    "mixtral": lambda: config("Mixtral", num_local_experts=4, sliding_window=None, **_EXPERTS),
    "qwen2_moe": lambda: config(
        "Qwen2Moe",
        num_experts=4,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        **_EXPERTS,
    ),
    "gpt_oss": lambda: config("GptOss", num_local_experts=4, **_EXPERTS, **_SMALL_HEADS, **_WINDOW),
    "deepseek_v3": lambda: config("DeepseekV3", **_DEEPSEEK),
}
"""Configs by name; built with `build`."""

_SEEDS = {"opt": 1}
"""Where seed 0 gives answers that repeat themselves."""


@functools.cache
def with_references(name: str) -> tuple[Any, list[list[int]], list[list[int]]]:
    """A model in its stock state, prompts, answers of `NEW` tokens. Shared: copy before
    changing the model.
    """
    model = build(ARCHITECTURES[name](), _SEEDS.get(name, 0))
    asked = prompts()
    return model, asked, references(model, asked, NEW)
