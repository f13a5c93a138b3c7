"""What is kept of one request against a live router."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Record:
    """Times in seconds on the client's monotonic clock, relative to the start of the run.

    `planned`: when the workload wanted it sent; `sent`: when it was. `token_times`: when each part
    of the answer arrived, with the tokens it brought. A failed request has an `error`.
    """

    number: int
    planned: float
    sent: float
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    predicted_hit: int = 0
    best_hit: int = 0
    worker: str = ""
    ended: float = 0.0
    error: str = ""
    parts: list[tuple[float, int]] = field(default_factory=list)
    warm_up: bool = False

    @property
    def lateness(self) -> float:
        return max(0.0, self.sent - self.planned)

    @property
    def ttft(self) -> float:
        """From the planned time on: a sender that fell behind cannot hide it."""
        return self.parts[0][0] - self.planned if self.parts else 0.0

    @property
    def latency(self) -> float:
        return self.ended - self.planned

    @property
    def tpot(self) -> float:
        """Mean seconds per token behind the first part; 0 for an answer of one part."""
        tokens = sum(count for _, count in self.parts[1:])
        return (self.parts[-1][0] - self.parts[0][0]) / tokens if tokens else 0.0

    def gaps(self) -> list[float]:
        """Seconds between one part of the answer and the next (inter-token latency)."""
        times = [at for at, _ in self.parts]
        return [after - before for before, after in zip(times, times[1:], strict=False)]
