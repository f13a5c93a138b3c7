"""What users of transformers have today, on the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worker_svc.bench.contestant import Clock

_PAGES = 80
"""Of 256 tokens: as much cache as ours has."""
_BATCH_TOKENS = 2048


class HfGenerate:
    """`model.generate` over one static batch. Decoding is timed as n tokens minus one token, on
    the same prompts.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._model = _load(path)

    def first_tokens(self, prompts: Sequence[list[int]]) -> float:
        return self._seconds(prompts, 1)

    def decode_rate(self, prompts: Sequence[list[int]], new_tokens: int) -> float:
        whole = self._seconds(prompts, new_tokens) - self._seconds(prompts, 1)
        return len(prompts) * (new_tokens - 1) / max(whole, 1e-9)

    def close(self) -> None: ...

    def _seconds(self, prompts: Sequence[list[int]], new_tokens: int) -> float:
        import torch

        ids = torch.tensor(list(prompts))
        began = self._clock()
        with torch.inference_mode():
            self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=new_tokens,
                min_new_tokens=new_tokens,
            )
        return self._clock() - began


class GenerateBatch:
    """transformers' continuous batching. It builds its manager anew for each call, so nothing
    stays cached between calls.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._model = _load(path)
        self._model.set_attn_implementation("paged|sdpa")
        self.first_tokens([[1, 2, 3]])

    def first_tokens(self, prompts: Sequence[list[int]]) -> float:
        return self._seconds(prompts, 1)

    def decode_rate(self, prompts: Sequence[list[int]], new_tokens: int) -> float:
        whole = self._seconds(prompts, new_tokens) - self._seconds(prompts, 1)
        return len(prompts) * (new_tokens - 1) / max(whole, 1e-9)

    def close(self) -> None: ...

    def _seconds(self, prompts: Sequence[list[int]], new_tokens: int) -> float:
        import transformers

        kind: Any = transformers.GenerationConfig
        config = kind(max_new_tokens=new_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0)
        began = self._clock()
        found: Any = self._model.generate_batch(
            inputs=[list(prompt) for prompt in prompts],
            generation_config=config,
            # Left to itself it takes most of the machine's memory for its cache, at every call.
            continuous_batching_config=transformers.ContinuousBatchingConfig(
                num_blocks=_PAGES, max_batch_tokens=_BATCH_TOKENS
            ),
            progress_bar=False,
        )
        seconds = self._clock() - began
        made = sum(len(output.generated_tokens) for output in found.values())
        if made != len(prompts) * new_tokens:
            raise RuntimeError(f"generate_batch made {made} tokens")
        return seconds


def _load(path: Path) -> Any:
    import torch
    import transformers

    logging: Any = transformers.logging
    logging.set_verbosity_error()
    kind: Any = transformers.AutoModelForCausalLM
    return kind.from_pretrained(path, dtype=torch.float32).eval()
