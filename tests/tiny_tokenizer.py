"""A byte-level tokenizer built in code."""

from __future__ import annotations

from typing import Any

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'bad' %}"
    "{{ raise_exception('no such role') }}{% endif %}<{{ m['role'] }}>{{ m['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}{{ extra | default('') }}"
)


def tokenizer(*, adds_bos: bool = False, template: str | None = TEMPLATE) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<s>": 0, "</s>": 1} | {letter: i + 2 for i, letter in enumerate(alphabet)}
    inner = Tokenizer(models.BPE(vocab, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    if adds_bos:
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)]
        )
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="</s>"
    )
    made.chat_template = template
    return made
