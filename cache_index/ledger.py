"""stub"""

from __future__ import annotations

from dataclasses import dataclass

from kvroute.errors import Unavailable


class NoCandidate(Unavailable):
    """None of the candidates' slots is alive in the ledger; nothing was booked."""


@dataclass(frozen=True, slots=True)
class Booking:
    """Load that this router put on a slot. `gen` tags the row: later settlements of an older gen
    are void.

    `prefill_us`: the predicted prefill (c), booked until the first token. `cost_ms`: E of the
    chosen candidate. `tokens`: booked until the first token; `blocks`: until the end. `degraded`:
    chosen from local knowledge.
    """

    number: int
    slot: int
    epoch: int
    gen: float
    prefill_us: int
    cost_ms: float
    kappa: float
    tokens: int
    blocks: int
    deadline: float
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """What a finished request cost its worker, as measured there; what the learner sees.

    `hit`, `miss`: prompt tokens; `prefill_ms`: its share of prefill steps (0: unknown);
    `batch_size`, `step_ms`: means over its decode steps (0: none); `output_tokens`.
    """

    hit: int
    miss: int
    prefill_ms: float
    batch_size: float
    step_ms: float
    output_tokens: int
