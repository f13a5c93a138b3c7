"""Architectures that would be silently wrong, or cannot work, are refused at load with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import transformers

from tests.tiny_models import ARCHITECTURES, VOCAB, build, config
from worker_svc.model.prepare import judge

_SEQ2SEQ = {
    "vocab_size": VOCAB,
    "d_model": 64,
    "pad_token_id": 0,
    "max_position_embeddings": 512,
    "decoder_layers": 2,
    "encoder_layers": 2,
    "decoder_attention_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_ffn_dim": 96,
    "encoder_ffn_dim": 96,
    "init_std": 0.2,
    "is_decoder": True,
    "is_encoder_decoder": False,
}
_PLAIN = {"vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 2}
_BERT = {**_PLAIN, "num_attention_heads": 4, "intermediate_size": 96}
_FALCON_H1 = {
    "num_hidden_layers": 2,
    "mamba_d_ssm": 64,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 16,
}
_JAMBA = {
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "mamba_d_state": 4,
    "use_mamba_kernels": False,
}
_LLAMA4 = {
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "intermediate_size_mlp": 96,
    "attention_chunk_size": 32,
}
_RECURRENT = {**_BERT, "num_hidden_layers": 3, "lru_width": 64, "attention_window_size": 32}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "bart": (lambda: transformers.BartConfig(**_SEQ2SEQ), "logits are wrong"),
    "mbart": (lambda: transformers.MBartConfig(**_SEQ2SEQ), "logits are wrong"),
    "marian": (lambda: transformers.MarianConfig(**_SEQ2SEQ), "logits are wrong"),
    "pegasus": (lambda: transformers.PegasusConfig(**_SEQ2SEQ), "logits are wrong"),
    "plbart": (lambda: transformers.PLBartConfig(**_SEQ2SEQ), "logits are wrong"),
    "falcon_h1": (lambda: config("FalconH1", **_FALCON_H1), "logits are wrong"),
    "llama4 in chunks": (lambda: config("Llama4Text", **_LLAMA4), "logits are wrong"),
    "jamba": (lambda: config("Jamba", **_JAMBA), "2 of 4 layers"),
    "recurrent_gemma": (lambda: transformers.RecurrentGemmaConfig(**_RECURRENT), "1 of 3 layers"),
    "mamba": (lambda: transformers.MambaConfig(state_size=4, **_PLAIN), "registry"),
    "rwkv": (lambda: transformers.RwkvConfig(**_PLAIN), "registry"),
    "bloom": (lambda: config("Bloom", n_layer=2, n_head=4), "registry"),
    "bert as an encoder": (lambda: transformers.BertConfig(**_BERT), "not causal"),
    "doge": (lambda: config("Doge", num_hidden_layers=2), "mask or position bias"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")  # Of these models' own code.
def test_what_would_be_wrong_is_refused_with_the_reason(name: str) -> None:
    make, reason = REFUSED[name]
    verdict = judge(build(make()))
    assert not verdict.supported and reason in verdict.reason
    assert verdict.architecture in verdict.reason and "\n" not in verdict.reason


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_the_matrix_proves_exact_is_not_refused(name: str) -> None:
    verdict = judge(build(ARCHITECTURES[name]()))
    assert verdict.supported, verdict.reason
    assert verdict.error < 1e-4
