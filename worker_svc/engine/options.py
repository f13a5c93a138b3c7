"""What an engine is built with."""

from __future__ import annotations

from dataclasses import dataclass

from kvroute.errors import SettingsError
from worker_svc.kv.evict.registry import EVICTORS


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Bounds and choices of one engine.

    `blocks`: pages of the K/V pool, `block_size` tokens each. `max_batch_tokens`: tokens computed
    in one step. `max_running`: sequences that hold blocks at a time. `max_queue`: requests that may
    wait. `look_ahead`: share of the cache that may be locked for queued requests. Raises
    `SettingsError`.
    """

    blocks: int
    block_size: int = 16
    max_batch_tokens: int = 512
    max_running: int = 64
    max_queue: int = 1024
    evictor: str = "arc_mix"
    look_ahead: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is {getattr(self, name)}; it must be 1 or more"
            for name in ("blocks", "block_size", "max_batch_tokens", "max_running", "max_queue")
            if getattr(self, name) < 1
        ]
        if self.max_running > self.max_batch_tokens:
            wrong.append(
                f"max_running is {self.max_running}; it must be at most max_batch_tokens"
                f" ({self.max_batch_tokens}), for every running sequence computes a token a step"
            )
        if not 0 <= self.look_ahead <= 1:
            wrong.append(f"look_ahead is {self.look_ahead}; it must be between 0 and 1")
        if self.evictor not in EVICTORS:
            wrong.append(f"evictor is {self.evictor!r}; it must be one of {', '.join(EVICTORS)}")
        if wrong:
            raise SettingsError("; ".join(wrong))
