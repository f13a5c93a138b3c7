"""What a contestant of `bench worker` can be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Clock = Callable[[], float]
"""Seconds: of the wall, or of this process's processors."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one contestant."""

    prefill_tok_s: float
    decode_tok_s: dict[int, float]
    ttft_miss_ms: float
    ttft_hit_ms: float
    ttft_suffix_only_ms: float


class Contestant(Protocol):
    """Greedy, exactly as many tokens as asked for."""

    def first_tokens(self, prompts: Sequence[list[int]]) -> float:
        """Seconds from handing in all prompts until each has its first token."""

    def decode_rate(self, prompts: Sequence[list[int]], new_tokens: int) -> float:
        """Tokens per second behind the first one of each prompt."""

    def close(self) -> None: ...
