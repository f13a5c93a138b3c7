"""Measures a live worker for `fit.py`: prompts of several lengths, cold and warm, alone and in
batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from kvroute.client import Client
from kvroute.errors import KvrouteError
from loadtest.live.fit import Probe

LENGTHS = (64, 128, 256, 512, 1024)
BATCHES = (1, 2, 4, 8)
ANSWER = 12
FIRST_ID = 4


async def probe(
    client: Client,
    vocabulary: int,
    *,
    lengths: Sequence[int] = LENGTHS,
    batches: Sequence[int] = BATCHES,
    seed: int = 0,
) -> list[Probe]:
    """One request at a time for each length, cold and then again with another end; then several at
    once. Every prompt is new to the fleet but for what it is meant to share.

    Raises:
        KvrouteError: a request failed, or the worker reports no times.
    """
    rng = Random(f"probe/{seed}")

    def fresh(count: int) -> list[int]:
        return [rng.randrange(FIRST_ID, max(FIRST_ID + 60, vocabulary)) for _ in range(count)]

    found = []
    for length in lengths:
        prompt = fresh(length)
        found.append(await _one(client, prompt))
        found.append(await _one(client, prompt[: length // 2] + fresh(length - length // 2)))
    for batch in batches:
        for length in (lengths[0], lengths[len(lengths) // 2]):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_one(client, fresh(length))) for _ in range(batch)]
            found += [task.result() for task in tasks]
    return found


async def _one(client: Client, prompt: list[int]) -> Probe:
    generation = client.generate(token_ids=prompt, max_tokens=ANSWER, ignore_eos=True)
    async for _ in generation:
        pass
    usage, timing = generation.usage, generation.timing
    if usage is None or timing is None or timing.prefill_ms <= 0:
        raise KvrouteError("the worker reports no service times")
    return Probe(
        hit=usage.cached_tokens,
        miss=usage.prompt_tokens - usage.cached_tokens,
        prefill_ms=timing.prefill_ms,
        batch=timing.batch_size,
        step_ms=timing.step_ms,
        context=usage.prompt_tokens + usage.completion_tokens / 2.0,
    )
