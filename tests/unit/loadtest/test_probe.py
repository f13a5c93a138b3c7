"""Probing a worker: which prompts are sent, and what a worker without times leads to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kvroute.errors import KvrouteError
from kvroute.v1 import common_pb2
from loadtest.live.fit import fit_profile
from loadtest.live.probe import probe


class FakeGeneration:
    def __init__(self, usage: common_pb2.Usage, timing: common_pb2.Timing) -> None:
        self.usage, self.timing = usage, timing

    async def __aiter__(self) -> AsyncIterator[None]:
        yield None


class FakeClient:
    """A worker that caches all it has seen: 2 ms and 0.5 ms per token of prefill, 20 + n ms steps.
    `open` counts requests that are under way.
    """

    def __init__(self, silent: bool = False) -> None:
        self.prompts: list[list[int]] = []
        self._silent = silent

    def generate(self, *, token_ids: list[int], max_tokens: int, **_: Any) -> FakeGeneration:
        hit = max((_shared(token_ids, old) for old in self.prompts), default=0)
        self.prompts.append(token_ids)
        miss = len(token_ids) - hit
        usage = common_pb2.Usage(
            prompt_tokens=len(token_ids), cached_tokens=hit, completion_tokens=max_tokens
        )
        batch = 1 + len(self.prompts) % 4
        timing = common_pb2.Timing(
            prefill_ms=0.0 if self._silent else 2.0 + 0.5 * miss,
            step_ms=20.0 + batch,
            batch_size=batch,
        )
        return FakeGeneration(usage, timing)


def _shared(a: list[int], b: list[int]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


async def test_prompts_are_cold_and_half_warm_and_give_the_profile() -> None:
    client = FakeClient()
    probes = await probe(client, 1000, lengths=(64, 128, 256), batches=(1, 2))  # type: ignore[arg-type]
    assert [one.hit for one in probes[:6]] == [0, 32, 0, 64, 0, 128]
    assert len(probes) == 6 + 2 * (1 + 2)
    profile = fit_profile(probes)
    assert profile.prefill_ms == pytest.approx(0.5, rel=0.01)
    assert profile.decode_ms == pytest.approx(1.0, rel=0.05)
    assert all(token >= 4 for prompt in client.prompts for token in prompt)


async def test_a_worker_without_times_is_said() -> None:
    with pytest.raises(KvrouteError, match="no service times"):
        await probe(FakeClient(silent=True), 1000, lengths=(64,), batches=())  # type: ignore[arg-type]
