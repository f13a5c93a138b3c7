"""What came of one request of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kvroute.demo.workload import DemoRequest


class Kind(Enum):
    """How much of the shared prefix was delivered from the cache."""

    HIT = "hit"
    MISS = "miss"
    PARTIAL = "part"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Measured by the client, beside what the router explains. Times in ms, hits in tokens.

    `error` is the one line of a failed request, whose other figures are zero.
    """

    request: DemoRequest
    worker_id: str = ""
    ttft_ms: float = 0.0
    cached_tokens: int = 0
    predicted_hit: int = 0
    delivered_hit: int = 0
    text: str = ""
    error: str | None = None

    def kind(self, block_size: int) -> Kind:
        """HIT: the whole prefix but for a last, split block; MISS: at most what all prompts share,
        their opening words (a tenth of the prefix is far above that).
        """
        prefix = self.request.prefix_tokens
        if self.error is not None:
            return Kind.FAILED
        if self.cached_tokens > prefix - block_size:
            return Kind.HIT
        return Kind.MISS if self.cached_tokens <= prefix // 10 else Kind.PARTIAL
