"""One call on its way through the simulated fleet."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadtest.workloads.base import Call
from router_svc.policy.base import Price, Request


@dataclass(slots=True, eq=False)
class Job:
    """Times in ms of virtual time; tokens and blocks as the worker sees them."""

    call: Call
    arrived: float
    router: int = 0
    worker: int = -1
    request: Request | None = None
    price: Price | None = None
    table: list[int] = field(default_factory=list)
    """Blocks held on the worker, in chain order."""
    hit: int = 0
    left: int = 0
    """Prompt tokens still to compute."""
    prefill_ms: float = 0.0
    """Share of step time spent on the prompt: what the worker would report."""
    first_token: float = -1.0
    ended: float = -1.0
    attempts: int = 0
    booked_tokens: int = 0
    booked_ms: float = 0.0
    booked_blocks: int = 0
    steps_at: int = 0
    """The worker's count of decode steps at the first token."""
    decode_at: tuple[float, float, int] = (0.0, 0.0, 0)
    """The worker's sums over pure decode steps at the first token: ms, requests, steps."""

    @property
    def position(self) -> int:
        """Prompt tokens computed or hit."""
        return self.call.prompt_tokens - self.left
