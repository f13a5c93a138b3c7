"""A Llama model in GGUF form to a directory that `from_pretrained` loads: weights, config,
tokenizer, chat template.

Weights are written one by one, so memory stays at the largest tensor. GGUF stores the rows of the
query and key matrices in another order (rotary pairs side by side); they are put back.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from worker_svc.demo.gguf_file import Floats, GgufError, GgufFile, Tensor

_CONTROL_TOKEN = 3
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def convert(source: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    """Fills the existing directory `target`. `progress(done, total)` counts tensors. Raises
    `GgufError`.
    """
    gguf = GgufFile(source)
    if gguf.metadata.get("general.architecture") != "llama":
        raise GgufError("only Llama models can be converted")
    _write_json(target / "config.json", _config(gguf))
    _write_json(target / "generation_config.json", _generation(gguf.metadata))
    _write_tokenizer(gguf.metadata, target)
    _write_weights(gguf, target / "model.safetensors", progress)


def _config(gguf: GgufFile) -> dict[str, Any]:
    data = gguf.metadata
    width, heads = data["llama.embedding_length"], data["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": len(data["tokenizer.ggml.tokens"]),
        "hidden_size": width,
        "intermediate_size": data["llama.feed_forward_length"],
        "num_hidden_layers": data["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": data["llama.attention.head_count_kv"],
        "head_dim": width // heads,
        "hidden_act": "silu",
        "max_position_embeddings": data["llama.context_length"],
        "rms_norm_eps": data["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_type": "default", "rope_theta": data["llama.rope.freq_base"]},
        "rope_theta": data["llama.rope.freq_base"],
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in gguf.tensors),
    } | _generation(data)


def _generation(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bos_token_id": data["tokenizer.ggml.bos_token_id"],
        "eos_token_id": data["tokenizer.ggml.eos_token_id"],
        "pad_token_id": data["tokenizer.ggml.padding_token_id"],
    }


def _write_tokenizer(data: Mapping[str, Any], target: Path) -> None:
    """Byte-level BPE with single digits, which is what the pre-tokenizer named "smollm" stands
    for.
    """
    if data["tokenizer.ggml.model"] != "gpt2" or data["tokenizer.ggml.pre"] != "smollm":
        raise GgufError("only SmolLM tokenizers can be converted")
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = data["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in data["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(
        models.BPE({token: at for at, token in enumerate(tokens)}, merges, fuse_unk=False)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = data["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == _CONTROL_TOKEN
        ]
    )
    made: Any = PreTrainedTokenizerFast
    made(
        tokenizer_object=tokenizer,
        bos_token=tokens[data["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[data["tokenizer.ggml.eos_token_id"]],
        unk_token=tokens[data["tokenizer.ggml.unknown_token_id"]],
        pad_token=tokens[data["tokenizer.ggml.padding_token_id"]],
        chat_template=data["tokenizer.chat_template"],
        model_max_length=data["llama.context_length"],
        clean_up_tokenization_spaces=False,
    ).save_pretrained(target)


def _write_weights(gguf: GgufFile, path: Path, progress: Callable[[int, int], None]) -> None:
    """The safetensors format: u64 header size, JSON header with offsets, raw little-endian data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in gguf.tensors:
        size = 4 * int(np.prod(tensor.shape))
        header[_name(tensor.name)] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for done, weights in enumerate(_weights(gguf), start=1):
            weights.tofile(file)
            progress(done, len(gguf.tensors))


def _weights(gguf: GgufFile) -> Iterator[Floats]:
    for tensor in gguf.tensors:
        weights = gguf.read(tensor)
        heads = _rotary_heads(tensor, gguf.metadata)
        yield weights if heads is None else _unpermute(weights, heads)


def _rotary_heads(tensor: Tensor, data: Mapping[str, Any]) -> int | None:
    if tensor.name.endswith(".attn_q.weight"):
        return int(data["llama.attention.head_count"])
    if tensor.name.endswith(".attn_k.weight"):
        return int(data["llama.attention.head_count_kv"])
    return None


def _unpermute(weights: Floats, heads: int) -> npt.NDArray[np.float32]:
    """(heads * dim, width): rows of a head from (dim / 2, 2) order back to (2, dim / 2)."""
    rows = weights.reshape(heads, -1, 2, weights.shape[1])
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(weights.shape)


def _name(name: str) -> str:
    """The transformers name of a weight."""
    if name in _NAMES:
        return _NAMES[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _LAYER_NAMES:
        return f"model.layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{parts[3]}"
    raise GgufError(f"weight {name} is not known")


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
