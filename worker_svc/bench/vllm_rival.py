"""vLLM as a contestant: run by the Python of its own environment (`make compare-vllm`).

    python vllm_rival.py MODEL_DIR

Says {"ready": true} when loaded, then answers each line {"prompts": [[ids]], "new_tokens": n} with
{"wall": seconds, "cpu": seconds}. Standard library and vLLM only. Eager mode, float32 and one
process, as our engine runs on a CPU; its prefix cache is on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from typing import IO, Any

GIGABYTES = "2"
"""Of KV cache; ours has 1,200 blocks of 16 tokens, both more than a round needs."""


def answers() -> IO[str]:
    """Our standard output; whatever vLLM prints goes to standard error from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def load(path: str) -> Any:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", GIGABYTES)
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    return import_module("vllm").LLM(
        model=path,
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        enable_prefix_caching=True,
        max_model_len=4096,
    )


def main(path: str) -> None:
    out = answers()
    llm, parameters = load(path), import_module("vllm").SamplingParams
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        prompts = [{"prompt_token_ids": ids} for ids in asked["prompts"]]
        sampling = parameters(
            temperature=0.0, max_tokens=asked["new_tokens"], ignore_eos=True, detokenize=False
        )
        wall, cpu = time.perf_counter(), time.process_time()
        llm.generate(prompts, sampling, use_tqdm=False)
        took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps(took), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
