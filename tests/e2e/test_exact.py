"""Client to model and back: greedy tokens equal HuggingFace `generate`, token for token, in
float32.

The demo model behind a router and two workers, 8 requests at a time with shared prefixes, prompts
that need several prefill chunks, and so few blocks that the second round must evict.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import AutoModelForCausalLM

from cache_index.embedded import EmbeddedServer
from kvroute.client import Client, Generation
from kvroute.errors import InvalidArgument, NotFound
from tests.e2e.test_faults import connected
from tests.fakes.processes import fleet
from worker_svc.demo_model import ensure_demo_model

NEW_TOKENS = 12
CHUNK = 48
BLOCKS = 64
"""Of 16 tokens, per worker: 8 prompts of about 130 tokens fit once over two workers, two rounds do
not.
"""


def prompts(seed: int, prefixes: int = 2, count: int = 8) -> list[list[int]]:
    """`count` prompts; each starts with one of `prefixes` shared prefixes of 96 tokens."""
    rng = Random(seed)
    shared = [[rng.randrange(1000, 40000) for _ in range(96)] for _ in range(prefixes)]
    return [
        shared[number % prefixes]
        + [rng.randrange(1000, 40000) for _ in range(rng.randrange(8, 60))]
        for number in range(count)
    ]


def reference(model: Path, asked: list[list[int]]) -> list[list[int]]:
    """What HuggingFace's own `generate` says to each prompt alone."""
    stock = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    answers = []
    with torch.inference_mode():
        for prompt in asked:
            ids = torch.tensor([prompt])
            out = stock.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=NEW_TOKENS,
                min_new_tokens=NEW_TOKENS,
            )
            answers.append(out[0, len(prompt) :].tolist())
    return answers


async def answer(client: Client, prompt: list[int]) -> tuple[list[int], Generation]:
    generation = client.generate(token_ids=prompt, max_tokens=NEW_TOKENS, ignore_eos=True)
    tokens = [token async for chunk in generation for token in chunk.token_ids]
    return tokens, generation


@pytest.fixture(scope="module")
def demo_model() -> Path:
    return ensure_demo_model()


async def test_eight_concurrent_requests_equal_generate(tmp_path: Path, demo_model: Path) -> None:
    rounds = [prompts(seed) for seed in (1, 2)]
    asked = [prompt for one in rounds for prompt in one]
    expected = await asyncio.to_thread(reference, demo_model, asked)
    assert len({tuple(tokens) for tokens in expected}) > 8, "the reference answers are all alike"
    options = ("--model", str(demo_model), "--served-name", "demo", "--blocks", str(BLOCKS))
    options += ("--max-batch-tokens", str(CHUNK), "--max-running", "8", "--threads", "1")
    async with EmbeddedServer() as server, fleet(tmp_path, server.url, lease_s=3.0) as found:
        router, *_ = await asyncio.gather(
            found.router(), *(found.real_worker(name, *options) for name in ("w1", "w2"))
        )
        async with Client(router.address) as client:
            await connected(client, 2)
            got = []
            for one in rounds:
                got += await asyncio.gather(*(answer(client, prompt) for prompt in one))
            again = await asyncio.gather(*(answer(client, prompt) for prompt in rounds[0]))
            assert [tokens for tokens, _ in got] == expected
            assert [tokens for tokens, _ in again] == expected[:8]
            explains = [run.explain for _, run in [*got, *again]]
            assert all(explain is not None for explain in explains)
            hits = [explain.delivered_hit for explain in explains if explain]
            assert sum(hit > 0 for hit in hits) >= 8
            await _limits_are_named(client)
            await _text_and_chat_are_tokenized(client)
            state = await client.cluster_state()
            cached = [one.cached_blocks for one in state.models[0].workers]
            assert max(cached) <= BLOCKS
            assert sum(cached) < sum(len(prompt) // 16 for prompt in asked), "nothing was evicted"


async def _limits_are_named(client: Client) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.generate(token_ids=[1, 2], max_tokens=10_000).text()
    assert caught.value.field == "sampling.max_tokens"
    assert "8192" in str(caught.value)
    with pytest.raises(InvalidArgument) as caught:
        await client.generate(token_ids=[1, 49152], max_tokens=1).text()
    assert (caught.value.field, caught.value.limit) == ("token_ids[1]", "below 49152")
    with pytest.raises(InvalidArgument) as caught:
        await client.generate(prompt="", max_tokens=1).text()
    assert caught.value.field == "prompt"
    with pytest.raises(InvalidArgument) as caught:
        await client.generate(prompt="x", temperature=-1.0).text()
    assert (caught.value.field, caught.value.value) == ("sampling.temperature", "-1")
    with pytest.raises(InvalidArgument, match="prompt and token_ids"):
        client.generate(prompt="x", token_ids=[1])
    with pytest.raises(NotFound) as missing:
        await client.generate(prompt="x", model="llama-9000").text()
    assert (missing.value.field, missing.value.limit) == ("model", "demo")


async def _text_and_chat_are_tokenized(client: Client) -> None:
    chat = client.generate(
        messages=[{"role": "user", "content": "What is the capital of France?"}], max_tokens=8
    )
    assert "Paris" in await chat.text()
    text = client.generate(prompt="The capital of France is", max_tokens=4, stop=["."])
    assert "Paris" in await text.text()
